"""What a server is asked beside completions."""

from pathlib import Path

from dflash_bench.runners.folders import max_positions
from dflash_bench.runners.server.endpoints import is_loopback, normal_url, same_server


def test_an_address_may_end_as_clients_of_openai_want_it() -> None:
    assert (
        normal_url("http://host:8000/v1/") == normal_url("http://host:8000") == "http://host:8000"
    )
    assert is_loopback("http://localhost:1")
    assert is_loopback("http://127.0.0.1:1")
    assert not is_loopback("https://example.org")


def test_one_server_has_many_addresses() -> None:
    assert same_server("http://localhost:8000/v1", "http://127.0.0.1:8000/")
    assert same_server("http://Host", "http://host:80")
    assert not same_server("http://host:8000", "http://host:8001")
    assert not same_server("http://host:8000/a", "http://host:8000/b")


def test_the_longest_sequence_is_read_from_the_target_or_not_known(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    assert max_positions(tmp_path) is None
    config.write_text('{"max_position_embeddings": 512}')
    assert max_positions(tmp_path) == 512
    config.write_text('{"text_config": {"max_position_embeddings": 1024}}')
    assert max_positions(tmp_path) == 1024
    config.write_text("{}")
    assert max_positions(tmp_path) is None
