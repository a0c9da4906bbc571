"""The draft model in the loop: against a recomputation without any cache, and AR's own text."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from dflash_bench.engine.draft import Anchors, Draft
from dflash_bench.engine.loop import Admitted, Step, generate
from dflash_bench.engine.methods import draft_model
from dflash_bench.engine.methods.ar import AutoregressiveDrafter
from dflash_bench.engine.methods.draft_model import DraftModelDrafter
from dflash_bench.engine.sampling import Sampling
from dflash_bench.engine.target import Target
from dflash_bench.errors import ConfigError
from tests.unit.engine.tiny import VOCAB, build_model, build_requests, build_target, outputs


class Recorder(DraftModelDrafter):
    """A drafter that remembers what it drafted last."""

    drafted: Draft

    def draft_block(self, anchors: Anchors) -> Draft:
        self.drafted = super().draft_block(anchors)
        return self.drafted


def resized(rows: int, seed: int = 3) -> Any:
    """Return a tiny model of `rows` tokens, of which the first VOCAB are as ever."""
    model = build_model(seed=seed)
    model.resize_token_embeddings(rows, mean_resizing=False)
    return model


def write_ahead(model: Any, text: list[int], count: int) -> list[int]:
    """Let a model go on greedily, from scratch for every token."""
    text = list(text)
    for _ in range(count):
        text.append(int(model(torch.tensor([text])).logits[0, -1].argmax()))
    return text[-count:]


@pytest.mark.parametrize("batch_size", [1, 3])
@pytest.mark.parametrize("seed", [0, 3], ids=["the target itself", "another model"])
def test_drafts_equal_a_recomputation_without_cache(batch_size: int, seed: int) -> None:
    """With the target itself as its draft, many blocks are accepted as a whole: the gap is filled."""
    target, model = build_target(), build_model(seed=seed)
    drafter = Recorder(Target.from_model(model), VOCAB, block_size=4)
    requests = build_requests(5, max_new_tokens=12)
    texts = {request.id: list(request.prompt) for request in requests}
    accepted = []
    for event in generate(
        target, drafter, requests, batch_size=batch_size, sampling=Sampling(0.3, seed=2)
    ):
        if isinstance(event, Admitted):
            texts[event.request_id].append(event.first_token)
            continue
        for row, drafts in zip(event.rows, drafter.drafted.tokens.tolist(), strict=True):
            assert drafts == write_ahead(model, texts[row.request_id], 3)
            texts[row.request_id] += row.tokens
            accepted.append(row.accepted)
    assert {0, 1, 3} <= set(accepted) if seed == 0 else 0 in accepted


def test_a_target_that_drafts_for_itself_is_always_right() -> None:
    target, requests = build_target(), build_requests(5, max_new_tokens=25)
    drafter = DraftModelDrafter(build_target(), VOCAB, block_size=5)
    events = list(generate(target, drafter, requests, batch_size=2, sampling=Sampling()))
    rows = [row for event in events if isinstance(event, Step) for row in event.rows]
    assert len(rows) == 5 * 5  # 24 tokens behind the prefill's, at most 5 a step
    assert all(row.accepted == 4 for row in rows if not row.finished)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("batch_size", [1, 3])
@pytest.mark.parametrize("rows", [VOCAB - 8, VOCAB, VOCAB + 8])
def test_the_text_is_plain_decodings(temperature: float, batch_size: int, rows: int) -> None:
    target, sampling = build_target(), Sampling(temperature, seed=5)
    requests = build_requests(5)
    drafter = DraftModelDrafter(Target.from_model(resized(rows)), VOCAB, block_size=4)
    plain = outputs(target, AutoregressiveDrafter(), requests, 2, sampling)
    assert outputs(target, drafter, requests, batch_size, sampling) == plain


@pytest.mark.parametrize("rows", [VOCAB - 8, VOCAB + 8])
def test_under_a_law_each_token_is_drawn_given_those_before(rows: int) -> None:
    model = resized(rows)
    drafter = DraftModelDrafter(Target.from_model(model), VOCAB, block_size=4)
    drafter.reserve(1, 20)
    text = [5, 6, 7, 8]
    drafter.admit(0, text, torch.empty(1, 3, 0))
    law = Sampling(0.8, seed=3)
    draft = drafter.draft_block(
        Anchors(torch.tensor([8]), [3], torch.tensor([3]), torch.tensor([9]), law)
    )
    assert draft.probs is not None
    assert draft.probs.shape == (1, 3, VOCAB)
    known = min(rows, VOCAB)
    for place, token in enumerate(draft.tokens[0].tolist()):
        logits = model(torch.tensor([text])).logits[0, -1, :known].double()
        expected = torch.zeros(VOCAB, dtype=torch.float64)
        expected[:known] = (logits / 0.8).softmax(-1)
        torch.testing.assert_close(draft.probs[0, place], expected, atol=1e-5, rtol=1e-4)
        text.append(token)


def test_a_draft_model_of_too_few_positions_is_refused() -> None:
    drafter = DraftModelDrafter(build_target(), VOCAB, block_size=4)
    drafter.reserve(1, 256 + 4)
    with pytest.raises(ConfigError, match="need 257 positions, but the draft model has 256"):
        drafter.reserve(1, 257 + 4)


@pytest.fixture
def target(tmp_path: Path) -> Target:
    return Target.load(save(tmp_path / "target", VOCAB, tokens=50))


def save(folder: Path, rows: int, tokens: int | None, changed: int | None = None) -> Path:
    """Write a model of `rows` tokens, and a tokenizer that knows `tokens`, one of them `changed`."""
    resized(rows).save_pretrained(folder)
    if tokens is not None:
        vocab = {f"t{i}" if i != changed else "other": i for i in range(tokens - 1)}
        added = [{"id": tokens - 1, "content": f"t{tokens - 1}"}]
        raw = {"model": {"type": "BPE", "vocab": vocab, "merges": []}, "added_tokens": added}
        (folder / "tokenizer.json").write_text(json.dumps(raw))
    return folder


@pytest.mark.parametrize(
    ("rows", "tokens"), [(VOCAB, 50), (VOCAB, None), (VOCAB + 8, 50), (VOCAB - 8, 50), (60, 55)]
)
def test_a_draft_model_of_the_same_tokenizer_is_taken(
    target: Target, tmp_path: Path, rows: int, tokens: int | None
) -> None:
    folder = save(tmp_path / "draft", rows, tokens)
    loaded: dict[object, Any] = {}
    drafter = draft_model.build(target, {"draft": folder, "block_size": 3}, loaded)
    again = draft_model.build(target, {"draft": str(folder)}, loaded)
    assert (drafter.block_size, again.block_size) == (3, 6)
    assert drafter._model.network is again._model.network
    assert drafter._model is not again._model


@pytest.mark.parametrize(
    ("rows", "tokens", "changed", "said"),
    [
        (VOCAB, 50, 7, "token 7 is 'other', but 't7' in the target's"),
        (VOCAB + 8, VOCAB + 2, None, f"tokens up to {VOCAB + 1} are in use"),
        (48, 48, None, "tokens up to 49 are in use"),
    ],
)
def test_a_draft_model_of_another_tokenizer_is_refused(
    target: Target, tmp_path: Path, rows: int, tokens: int, changed: int | None, said: str
) -> None:
    folder = save(tmp_path / "draft", rows, tokens, changed)
    with pytest.raises(ConfigError, match=said) as error:
        draft_model.build(target, {"draft": folder}, {})
    assert error.value.remedy


@pytest.mark.parametrize(
    "content", ['{"model": null}', '{"added_tokens": [{}]}', '{"model": {"vocab": [1]}}']
)
def test_a_tokenizer_that_is_none_is_refused(target: Target, tmp_path: Path, content: str) -> None:
    folder = save(tmp_path / "draft", VOCAB, 50)
    (folder / "tokenizer.json").write_text(content)
    with pytest.raises(ConfigError, match=r"tokenizer\.json is no tokenizer's"):
        draft_model.build(target, {"draft": folder}, {})


def test_without_a_tokenizer_the_vocabularies_must_be_equal(tmp_path: Path) -> None:
    folder = save(tmp_path / "draft", VOCAB + 8, None)
    with pytest.raises(ConfigError, match=r"no tokenizer\.json says"):
        draft_model.build(build_target(), {"draft": folder}, {})


@pytest.mark.parametrize(
    ("settings", "said"),
    [({"draft": None}, "needs a model"), ({"block_size": 1}, "block_size is 1")],
)
def test_settings_that_draft_nothing_are_refused(
    tmp_path: Path, settings: dict[str, object], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        draft_model.build(build_target(), {"draft": tmp_path, **settings}, {})
