"""The target's own outputs: chosen by seed, answered by the engine, kept in a file; and what is told from them."""

from pathlib import Path

from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM

from dflash_bench.engine.methods.dflash import DFlashDrafter
from dflash_bench.engine.target import Target
from dflash_bench.lab import dflash, outputs
from dflash_bench.lab.acceptance import measure
from dflash_bench.lab.corpus import chat
from dflash_bench.lab.outputs import Output
from dflash_bench.lab.quality import has_loop, quality

ROWS = chat.rows(1, 40, held_out=False)


def answered(
    model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, temperature: float
) -> tuple[Target, list[Output]]:
    """Let an untrained target answer three rows with 12 tokens at most."""
    target = Target.from_model(model)
    return target, outputs.answer(
        target, tokenizer, ROWS[:3], temperature, max_new_tokens=12, progress=lambda _: None
    )


def test_prompts_are_chosen_by_seed_and_some_are_long() -> None:
    chosen = outputs.choose_prompts({"chat": ROWS}, {"chat": 40})
    assert chosen == outputs.choose_prompts({"chat": ROWS}, {"chat": 40})
    assert 1 <= sum(len(row.prompt) > 350 for row in chosen) <= 15
    assert {row.prompt[-20:] for row in chosen} == {row.prompt[-20:] for row in ROWS}


def test_outputs_come_back_from_their_file(tmp_path: Path) -> None:
    some = [Output("chat", 1.0, [1, 2], [3]), Output("gsm8k", 0.0, [4], [5, 6])]
    outputs.write(some, tmp_path / "outputs.jsonl")
    assert outputs.read(tmp_path / "outputs.jsonl") == some


def test_any_drafter_leaves_the_text_as_it_is(
    tiny_target: Qwen3ForCausalLM, lab_tokenizer: PreTrainedTokenizerFast
) -> None:
    drafter = dflash.initialise(tiny_target, dflash.config_for(tiny_target, 3))
    for temperature in outputs.TEMPERATURES:
        target, reference = answered(tiny_target, lab_tokenizer, temperature)
        (found,) = measure(
            target,
            DFlashDrafter(drafter, target, 4),
            reference,
            label="block 4",
            max_new_tokens=12,
        )
        assert (found.identical, found.compared) == (3, 3)
        assert found.committed == sum(len(r.output) - 1 for r in reference)
        assert 1.0 <= found.tau <= 4.0


def test_a_loop_is_twenty_tokens_that_come_twice() -> None:
    assert has_loop([*range(20), 99, *range(20)])
    assert not has_loop([*range(19), 99, *range(19)])
    assert not has_loop([])


def test_quality_is_told_by_family() -> None:
    found = quality(
        [
            Output("a", 0.0, [9], [5, 2]),
            Output("a", 0.0, [9], [7] * 30),
            Output("b", 0.0, [9], [2]),
        ],
        frozenset({2}),
    )
    assert found["a"] == (2, 16.0, 0.5, 0.5)
    assert found["b"] == (1, 1.0, 1.0, 0.0)
