"""What a server is asked beside completions, and what of its answers is not written down."""

from pathlib import Path

from dflash_bench.runners.folders import max_positions
from dflash_bench.runners.server.endpoints import (
    hidden_words,
    is_loopback,
    normal_url,
    without_secrets,
)


def test_secrets_of_a_server_are_not_written_down() -> None:
    told = {
        "model": "m",
        "max_num_batched_tokens": 2048,
        "api_key": "hush",
        "env": [{"HF_TOKEN": "hush", "VLLM_API_KEY": "hush", "AWS_SECRET_ACCESS_KEY": "hush"}],
        "empty": {"api_key": None, "password": ""},
    }
    shown = without_secrets(told)
    assert "hush" not in str(shown)
    assert shown["max_num_batched_tokens"] == 2048
    assert shown["empty"] == {"api_key": None, "password": ""}


def test_secrets_of_a_command_are_not_written_down() -> None:
    argv = ("serve", "--api-key", "hush", "--hf-token=hush", "--max-num-batched-tokens", "2048")
    assert hidden_words(argv) == [
        "serve",
        "--api-key",
        "(not written down)",
        "--hf-token=(not written down)",
        "--max-num-batched-tokens",
        "2048",
    ]


def test_an_address_may_end_as_clients_of_openai_want_it() -> None:
    assert (
        normal_url("http://host:8000/v1/") == normal_url("http://host:8000") == "http://host:8000"
    )
    assert is_loopback("http://localhost:1")
    assert is_loopback("http://127.0.0.1:1")
    assert not is_loopback("https://example.org")


def test_the_longest_sequence_is_read_from_the_target_or_not_known(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    assert max_positions(tmp_path) is None
    config.write_text('{"max_position_embeddings": 512}')
    assert max_positions(tmp_path) == 512
    config.write_text('{"text_config": {"max_position_embeddings": 1024}}')
    assert max_positions(tmp_path) == 1024
    config.write_text("{}")
    assert max_positions(tmp_path) is None
