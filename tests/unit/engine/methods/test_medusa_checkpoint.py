"""Medusa checkpoints: each published layout gives the same heads, and what would be misread is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from dflash_bench.engine.methods import medusa_checkpoint as checkpoint
from dflash_bench.engine.methods.medusa_model import MedusaConfig, MedusaHeads
from dflash_bench.engine.target import Target
from dflash_bench.errors import ConfigError
from tests.unit.engine.tiny import VOCAB, build_target

HIDDEN = torch.randn(2, 32, generator=torch.Generator().manual_seed(7))
MEDUSA = {
    "base_model_name_or_path": "lmsys/vicuna-7b-v1.3",
    "medusa_num_heads": 3,
    "medusa_num_layers": 2,
    "transformers_version": "4.31.0",
}
VLLM = {
    "architectures": ["MedusaModel"],
    "model_type": "medusa",
    "hidden_size": 32,
    "vocab_size": VOCAB,
    "num_heads": 3,
    "num_hidden_layers": 2,
    "max_paths": 64,
    "topk": 10,
    "truncated_vocab_size": VOCAB,
}


@pytest.fixture
def heads() -> MedusaHeads:
    torch.manual_seed(1)
    made = MedusaHeads(MedusaConfig(32, VOCAB, num_heads=3, num_layers=2))
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return made.requires_grad_(False)


def write(folder: Path, config: dict[str, Any], tensors: dict[str, Tensor], name: str) -> Path:
    (folder / "config.json").write_text(json.dumps(config))
    if name.endswith(".pt"):
        torch.save(tensors, folder / name)
    else:
        save_file({key: tensor.clone() for key, tensor in tensors.items()}, folder / name)
    return folder


def to_vllm(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    named = {}
    for name, tensor in tensors.items():
        head, place, *rest = name.split(".")
        is_layer = rest[0] == "linear"
        new = f"blocks.{head}.layers.{place}.{rest[-1]}" if is_layer else f"lm_heads.{head}.weight"
        named[new] = tensor
    return named


@pytest.mark.parametrize("name", ["medusa_lm_head.pt", "medusa_lm_head.safetensors"])
@pytest.mark.parametrize("prefix", ["", "medusa_head."])
def test_medusas_own_layout(heads: MedusaHeads, tmp_path: Path, name: str, prefix: str) -> None:
    tensors = {prefix + key: tensor for key, tensor in heads.state_dict().items()}
    found = checkpoint.load(write(tmp_path, MEDUSA, tensors, name))
    assert torch.equal(found(HIDDEN), heads(HIDDEN))
    assert found.config == heads.config


@pytest.mark.parametrize("prefix", ["", "medusa_heads."])
def test_vllms_layout(heads: MedusaHeads, tmp_path: Path, prefix: str) -> None:
    tensors = {prefix + key: tensor for key, tensor in to_vllm(heads.state_dict()).items()}
    found = checkpoint.load(write(tmp_path, VLLM, tensors, "model.safetensors"))
    assert torch.equal(found(HIDDEN), heads(HIDDEN))


def test_vllms_heads_may_share_one_matrix(heads: MedusaHeads, tmp_path: Path) -> None:
    tensors = to_vllm(heads.state_dict())
    one = tensors["lm_heads.0.weight"]
    kept = {k: t for k, t in tensors.items() if k not in ("lm_heads.1.weight", "lm_heads.2.weight")}
    write(tmp_path, {**VLLM, "original_lm_head": True}, kept, "model.safetensors")
    for head in heads:
        head[-1].weight.copy_(one)  # type: ignore[index]
    found = checkpoint.load(tmp_path)
    assert torch.equal(found(HIDDEN), heads(HIDDEN))
    assert len({head[-1].weight.data_ptr() for head in found}) == 1  # type: ignore[index]


@pytest.mark.parametrize("full", [False, True])
def test_a_token_map_says_which_tokens_the_rows_are(
    heads: MedusaHeads, tmp_path: Path, full: bool
) -> None:
    token_map, tensors = torch.tensor([5, 60, 7, 0]), to_vllm(heads.state_dict())
    for i in range(3) if not full else ():
        tensors[f"lm_heads.{i}.weight"] = tensors[f"lm_heads.{i}.weight"][token_map]
    tensors["token_map"] = token_map
    config = {**VLLM, "truncated_vocab_size": 4}
    found = checkpoint.load(write(tmp_path, config, tensors, "model.safetensors"))
    logits = found(HIDDEN)
    assert logits.shape == (2, 3, VOCAB)
    torch.testing.assert_close(logits[..., token_map], heads(HIDDEN)[..., token_map])
    assert logits.isfinite().sum() == 2 * 3 * 4
    assert found.config.draft_vocab_size == 4


def test_a_token_map_of_the_whole_vocabulary_is_left_alone(
    heads: MedusaHeads, tmp_path: Path
) -> None:
    tensors = {**to_vllm(heads.state_dict()), "token_map": torch.arange(VOCAB).flip(0)}
    found = checkpoint.load(write(tmp_path, VLLM, tensors, "model.safetensors"))
    assert torch.equal(found(HIDDEN), heads(HIDDEN))


def test_the_heads_are_counted_where_the_config_miscounts(
    heads: MedusaHeads, tmp_path: Path
) -> None:
    config = {**MEDUSA, "medusa_num_heads": 2}
    found = checkpoint.load(write(tmp_path, config, heads.state_dict(), "medusa_lm_head.pt"))
    assert (found.config.num_heads, found.config.claimed_heads) == (3, 2)


def test_what_is_saved_is_loaded_again(heads: MedusaHeads, tmp_path: Path) -> None:
    checkpoint.save(heads.bfloat16(), tmp_path / "medusa", "lab")
    found = checkpoint.load(tmp_path / "medusa")
    assert torch.equal(found(HIDDEN), heads.float()(HIDDEN))
    assert torch.load(tmp_path / "medusa" / "medusa_lm_head.pt", weights_only=True).keys() == (
        heads.state_dict().keys()
    )


def refused(folder: Path, *said: str) -> None:
    with pytest.raises(ConfigError) as error:
        checkpoint.load(folder)
    assert error.value.remedy
    for text in said:
        assert text in str(error.value)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"hidden_act": "gelu"}, 'hidden_act is "gelu"'),
        ({"logit_scale": 0.5}, "logit_scale is 0.5"),
        ({"medusa_num_layers": 1}, "0.1.weight"),
        ({"medusa_num_layers": 3}, "0.3.weight"),
        ({"medusa_num_heads": "5"}, 'medusa_num_heads is "5"'),
        ({"hidden_size": 64}, "expected [64, 64]"),
        ({"vocab_size": 65}, "expected [65, 32]"),
        ({"medusa_fc_bias": False}, "0.0.linear.bias is unexpected"),
        ({"truncated_vocab_size": 4, "vocab_size": 65}, "expected [65, 32]"),
    ],
)
def test_a_config_that_does_not_fit_is_refused(
    heads: MedusaHeads, tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    write(tmp_path, {**MEDUSA, **changes}, heads.state_dict(), "medusa_lm_head.pt")
    refused(tmp_path, said, str(tmp_path))


def test_a_config_without_heads_is_refused(heads: MedusaHeads, tmp_path: Path) -> None:
    config = {"model_type": "llama"}
    refused(write(tmp_path, config, heads.state_dict(), "medusa_lm_head.pt"), "medusa_num_heads")


def test_a_model_trained_along_is_refused(heads: MedusaHeads, tmp_path: Path) -> None:
    tensors = {f"medusa_head.{name}": tensor for name, tensor in heads.state_dict().items()}
    tensors["model.layers.0.self_attn.q_proj.weight"] = torch.zeros(32, 32)
    refused(
        write(tmp_path, MEDUSA, tensors, "model.safetensors"), "q_proj.weight", "no Medusa heads"
    )


@pytest.mark.parametrize("token_map", [[1, 1, 2, 3], [0, 1, 2], [0, 1, 2, VOCAB]])
def test_a_token_map_that_misses_the_vocabulary_is_refused(
    heads: MedusaHeads, tmp_path: Path, token_map: list[int]
) -> None:
    tensors = {**to_vllm(heads.state_dict()), "token_map": torch.tensor(token_map)}
    for i in range(3):
        tensors[f"lm_heads.{i}.weight"] = tensors[f"lm_heads.{i}.weight"][:3]
    config = {**VLLM, "truncated_vocab_size": 4}
    refused(write(tmp_path, config, tensors, "model.safetensors"), "token_map")


@pytest.mark.parametrize(
    "token_map", [torch.tensor([0, 1, 2, VOCAB]), torch.tensor(3), torch.arange(4) + 0.5]
)
def test_a_token_map_is_judged_before_it_is_used(
    heads: MedusaHeads, tmp_path: Path, token_map: Tensor
) -> None:
    tensors = {**to_vllm(heads.state_dict()), "token_map": token_map}
    config = {**VLLM, "truncated_vocab_size": 4}
    refused(write(tmp_path, config, tensors, "model.safetensors"), "token_map is no list")


class Payload:
    def __reduce__(self) -> tuple[Any, ...]:
        return print, ("ran",)


def test_a_pickle_of_code_is_not_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.json").write_text(json.dumps(MEDUSA))
    torch.save({"0.0.linear.weight": Payload()}, tmp_path / "medusa_lm_head.pt")
    refused(tmp_path, "safe loader: it refers to print")
    assert "ran" not in capsys.readouterr().out


@pytest.mark.parametrize("content", [b"", b"hello world", b"PK\x03\x04 of a zip archive"])
def test_a_damaged_pickle_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "config.json").write_text(json.dumps(MEDUSA))
    (tmp_path / "medusa_lm_head.pt").write_bytes(content)
    refused(tmp_path, "safe loader: it is damaged")


def test_a_pickle_of_numbered_tensors_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(MEDUSA))
    torch.save({0: torch.ones(2)}, tmp_path / "medusa_lm_head.pt")
    refused(tmp_path, "no dictionary of named tensors")


@pytest.fixture
def target() -> Target:
    return build_target()


@pytest.mark.parametrize(
    ("settings", "nodes"),
    [
        ({}, 4),
        ({"block_size": 2}, 2),
        ({"tree": {}}, 1 + 61),  # two of the 63 nodes are four deep
        ({"tree": {"top_k": 2, "depth": 2}}, 1 + 6),
        ({"tree": {"top_k": None, "depth": 1}, "block_size": 5}, 5),
    ],
)
def test_a_drafter_is_built(
    heads: MedusaHeads, target: Target, tmp_path: Path, settings: dict[str, object], nodes: int
) -> None:
    checkpoint.save(heads, tmp_path, "x")
    loaded: dict[object, Any] = {}
    drafter = checkpoint.build(target, {"draft": tmp_path, **settings}, loaded)
    assert drafter.block_size == nodes
    assert checkpoint.build(target, {"draft": str(tmp_path)}, loaded)._heads is drafter._heads


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"draft": None}, "needs heads"),
        ({"block_size": 5}, "3 heads"),
        ({"block_size": 1}, "block_size is 1"),
        ({"block_size": True}, "block_size is True"),
        ({"block_size": 63, "tree": {}}, "a tree of 62 nodes"),
        ({"tree": "wide"}, "tree is 'wide'"),
        ({"tree": {"depth": 4}}, "depth is 4"),
        ({"tree": {"top_k": 11}}, "top_k is 11"),
        ({"tree": {"width": 3}}, "width"),
        ({"tree": {"width": 3, 4: 5}}, "there is no 4"),
    ],
)
def test_settings_that_do_not_fit_are_refused(
    heads: MedusaHeads, target: Target, tmp_path: Path, settings: dict[str, object], said: str
) -> None:
    checkpoint.save(heads, tmp_path, "x")
    with pytest.raises(ConfigError, match=said) as error:
        checkpoint.build(target, {"draft": tmp_path, **settings}, {})
    assert error.value.remedy


def test_heads_of_another_target_are_refused(target: Target, tmp_path: Path) -> None:
    checkpoint.save(MedusaHeads(MedusaConfig(16, 50, 2)), tmp_path, "x")
    with pytest.raises(ConfigError, match="hidden_size 16 expected, 32 found; vocab_size 50"):
        checkpoint.build(target, {"draft": tmp_path}, {})
