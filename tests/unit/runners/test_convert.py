"""Scripts that recipes run: what they start is what was asked for, and no file is there before it is whole."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dflash_bench.runners.convert import config_file, gguf, llama_server

CONVERT = Path(gguf.__file__).parent


def served(model: Path, *more: str) -> tuple[list[str] | None, list[str]]:
    return llama_server.plan(["--bin", "/b", "--model", str(model), "--slots", "4", *more])


def test_a_drafter_is_converted_with_its_targets_tokenizer() -> None:
    asked = ["--converter", "c.py", "--model", "d", "--dtype", "float32", "--output", "o"]
    assert gguf.command(asked)[1:] == ["c.py", "d", "--outtype", "f32", "--outfile", "o"]
    words = gguf.command([*asked, "--target", "t"])
    assert words[3:5] == ["--target-model-dir", "t"]


def test_each_slot_has_its_positions_and_room_for_a_burst(tmp_path: Path) -> None:
    quantize, serve = served(
        tmp_path / "t.gguf", "--positions", "256", "--host", "h", "--port", "1"
    )
    assert quantize is None
    context = int(serve[serve.index("-c") + 1])
    assert context % 4 == 0
    assert context // 4 >= 256 + 16
    assert serve[serve.index("-np") + 1] == "4"
    assert serve[-4:] == ["--host", "h", "--port", "1"]


def test_positions_that_nobody_knows_are_the_models(tmp_path: Path) -> None:
    _, serve = served(tmp_path / "t.gguf")
    assert serve[serve.index("-c") + 1] == "0"


def test_quantized_weights_are_made_once(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    model = tmp_path / "target-bfloat16.gguf"
    model.symlink_to(tmp_path / "kept" / "target-bfloat16.gguf")
    quantize, serve = served(model, "--weights", "q8_0")
    made = (tmp_path / "kept").resolve() / "target-bfloat16.q8_0.gguf"
    part = f"{made}.part-{os.getpid()}"
    assert quantize == ["/b/llama-quantize", str(model), part, "q8_0"]
    assert serve[serve.index("-m") + 1] == str(made)
    made.touch()
    assert served(model, "--weights", "q8_0") == (None, serve)


def test_a_failed_quantization_starts_no_server(tmp_path: Path) -> None:
    quantizer = tmp_path / "llama-quantize"
    quantizer.write_text("#!/bin/sh\nexit 3\n")
    quantizer.chmod(0o755)
    asked = ["--bin", str(tmp_path), "--model", "m.gguf", "--slots", "1", "--weights", "q8_0"]
    script = [sys.executable, str(CONVERT / "llama_server.py"), *asked]
    assert subprocess.run(script, check=False).returncode == 3


def test_settings_of_a_file_are_merged_in_order() -> None:
    command, settings = config_file.split(
        ["serve", "--merge", '{"a": {"b": 1, "c": 1}}', "--port", "1", "--merge", '{"a": {"c": 2}}']
    )
    assert command == ["serve", "--port", "1"]
    assert settings == {"a": {"b": 1, "c": 2}}


def test_what_is_no_object_is_refused() -> None:
    with pytest.raises(SystemExit, match="followed by a JSON object"):
        config_file.split(["serve", "--merge", "3"])


def test_the_server_gets_the_file(tmp_path: Path) -> None:
    server = tmp_path / "server"
    server.write_text('#!/bin/sh\ncat "$4"\n')
    server.chmod(0o755)
    kept = tmp_path / "kept"
    for dtype in ("float32", "bfloat16", "float32"):
        merged = json.dumps({"dtype": dtype})
        words = [str(kept), str(server), "target", "--merge", merged, "--pytorch"]
        script = [sys.executable, str(CONVERT / "config_file.py"), *words]
        said = subprocess.run(script, check=True, capture_output=True, text=True).stdout
        log, _, written = said.partition("}\n")
        assert log.startswith(f"$ {server} target --pytorch --config {kept}")
        assert json.loads(written) == {"dtype": dtype}
    assert len(list(kept.iterdir())) == 2, "starts with the same settings share a file"


def test_a_quantized_file_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    for code, left in ((1, []), (0, ["m.q8_0.gguf"])):
        (folder := tmp_path / str(code)).mkdir()
        quantizer = folder / "llama-quantize"
        quantizer.write_text(f'#!/bin/sh\necho half > "$2"\nexit {code}\n')
        (folder / "llama-server").write_text("#!/bin/sh\n")
        for program in folder.iterdir():
            program.chmod(0o755)
        model = folder / "m.gguf"
        asked = ["--bin", str(folder), "--model", str(model), "--slots", "1", "--weights", "q8_0"]
        script = [sys.executable, str(CONVERT / "llama_server.py"), *asked]
        subprocess.run(script, check=False)
        assert [path.name for path in folder.glob("*.gguf*")] == left
