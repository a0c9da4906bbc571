"""What SGLang 0.5.23 lacks on a CPU without its kernels, stood in for: the live test puts this folder on PYTHONPATH.

`sgl_kernel` for CPUs is on no registry, and torchvision for its torch is built for CUDA. Of both, only names are needed
to start; SGLang's own PyTorch code runs then, slowly and exactly. DFLASH is refused on a CPU, and needs three kernels
that copy indices, written here in Python, and a few lines of SGLang's source changed (`EDITS`). Drafting, verification
and all counting stay SGLang's own: what it tells can be held against the reference engine, its speed says nothing.
"""

import importlib.abc
import importlib.machinery
import os
import sys
from types import ModuleType
from typing import Any

STOOD_IN = ("torchvision", "sgl_kernel")
UNEDITED = "SGLANG_STUBS_UNEDITED"
"""Set, it leaves SGLang's source as it is: what cannot be imported is stood in for, and no more."""

# Per module: a text of its source, and what stands there instead.
EDITS = {
    # The refusal itself.
    "sglang.srt.arg_groups.speculative_hook": [
        ('cfg.device.startswith("cuda") or cfg.device == "npu" or cfg.device == "xpu"', "True"),
    ],
    # The one backend of a CPU, for the drafter as well.
    "sglang.srt.arg_groups.choices": [
        (
            "DRAFT_ATTENTION_BACKEND_CHOICES = [\n",
            'DRAFT_ATTENTION_BACKEND_CHOICES = [\n    "torch_native",\n',
        ),
    ],
    # It knows extensions, not the window of a verification: the tokens after `seq_lens`.
    "sglang.srt.layers.attention.torch_native_backend": [
        (
            "            forward_batch.seq_lens,\n"
            "            forward_batch.extend_prefix_lens,\n"
            "            forward_batch.extend_seq_lens,\n",
            "            *_lengths(forward_batch),\n",
        ),
        (
            "class TorchNativeAttnBackend",
            "def _lengths(batch):\n"
            "    if not batch.forward_mode.is_target_verify():\n"
            "        return batch.seq_lens, batch.extend_prefix_lens, batch.extend_seq_lens\n"
            "    window = torch.full_like(batch.seq_lens, batch.spec_info.draft_token_num)\n"
            "    return batch.seq_lens + window, batch.seq_lens, window\n"
            "\n\n"
            "class TorchNativeAttnBackend",
        ),
    ],
    # A cast to bfloat16, whatever the model's dtype.
    "sglang.srt.model_executor.model_runner": [
        ("forward_batch.input_embeds.bfloat16()", "forward_batch.input_embeds"),
    ],
    # A CPU has no streams.
    "sglang.srt.speculative.dflash_worker_v2": [
        ("batch.seq_lens.record_stream(", "(lambda stream: None)("),
    ],
}


class _Anything(type):
    """A class of which every attribute is another such class: enough to import, and to annotate."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _anything(name)


def _anything(name: str) -> Any:
    def refuse(self: object, *arguments: object, **options: object) -> None:
        raise NotImplementedError(f"{name} is a stand-in: it cannot be called")

    return _Anything(name, (), {"__init__": refuse})


def _write_slots(
    rows: Any, table: Any, starts: Any, ends: Any, slots: Any, width: int, *, read: bool = False
) -> None:
    """Copy `slots`, one after another, into table[row, start:end] of each row; the other way round with `read`."""
    done = 0
    for row, start, end in zip(rows.tolist(), starts.tolist(), ends.tolist(), strict=True):
        ours, theirs = slots[done : done + end - start], table[row, start:end]
        (ours if read else theirs).copy_(theirs if read else ours)
        done += end - start


def _read_slots(rows: Any, table: Any, starts: Any, ends: Any, slots: Any, width: int) -> None:
    _write_slots(rows, table, starts, ends, slots, width, read=True)


def _copy_onto_itself(pointers: Any, strides: Any, to: Any, source: Any) -> None:
    """Stand in for the copy of cache rows, which a chain needs only to warm up."""
    if not to.equal(source):
        raise NotImplementedError("rows of a cache cannot be moved with stand-ins")


KERNELS = {
    "assign_req_to_token_pool_cpu": _write_slots,
    "assign_extend_cache_locs_cpu": _read_slots,
    "copy_all_layer_kv_cache_cpu": _copy_onto_itself,
}


class _Module(ModuleType):
    """A package that holds whatever is asked of it."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _anything(name)


class _StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname.partition(".")[0] not in STOOD_IN:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: Any) -> ModuleType:
        return _Module(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["__version__"] = "0.0.0"
        if module.__name__ == "sgl_kernel":
            module.__dict__.update(KERNELS)


class _Edited(importlib.machinery.SourceFileLoader):
    """Loads a module from its changed source; another version's, which lacks what is changed, is refused."""

    def get_code(self, fullname: str) -> Any:
        source = self.get_data(self.path).decode()
        for old, new in EDITS[fullname]:
            if old not in source:
                raise ImportError(
                    f"{fullname}: this version has no {old!r}; the stand-ins are for 0.5.23"
                )
            source = source.replace(old, new)
        return self.source_to_code(source.encode(), self.path)


class _Edits(importlib.abc.MetaPathFinder):
    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname not in EDITS:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.origin is not None:
            spec.loader = _Edited(fullname, spec.origin)
        return spec


sys.meta_path.insert(0, _StandIns())
if os.environ.get(UNEDITED) is None:
    sys.meta_path.insert(0, _Edits())
