"""Arrays of any library as numpy views of the same memory, and back.

What computes sees numpy arrays of float32, float64 or unsigned codes. A torch tensor on the CPU, a jax array and a
numpy array of ml_dtypes are views of them; what comes in as one library goes out as that library.
"""

from __future__ import annotations

import functools
import sys
from typing import Any, NamedTuple

import numpy as np

from . import _narrow
from ._device import KERNELS, back_on, is_jax, on_device, plain, torch_of

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
UINT: dict[int, np.dtype[Any]] = {
    1: np.dtype(np.uint8),
    2: np.dtype(np.uint16),
    4: np.dtype(np.uint32),
    8: np.dtype(np.uint64),
}

# The format that a dtype of numpy, torch or ml_dtypes holds, and what .safetensors calls it (where it has a word).
DTYPES = {
    "float64": ("fp64", "F64"), "float32": ("fp32", "F32"), "float16": ("fp16", "F16"), "bfloat16": ("bf16", "BF16"),
    "float8_e4m3fn": ("e4m3", "F8_E4M3"), "float8_e5m2": ("e5m2", "F8_E5M2"), "float8_e8m0fnu": ("e8m0", "F8_E8M0"),
    "float8_e4m3fnuz": ("e4m3fnuz", ""), "float8_e5m2fnuz": ("e5m2fnuz", ""),
    "float8_e4m3b11fnuz": ("e4m3b11fnuz", ""), "float8_e4m3": ("e4m3ieee", ""), "float8_e3m4": ("e3m4", ""),
    "float6_e2m3fn": ("e2m3", ""), "float6_e3m2fn": ("e3m2", ""), "float4_e2m1fn": ("e2m1", ""),
}  # fmt: skip
DTYPE_OF = {row[0]: name for name, row in DTYPES.items()}
INTEGERS = {
    "int8": "I8", "int16": "I16", "int32": "I32", "int64": "I64", "bool": "BOOL",
    "uint8": "U8", "uint16": "U16", "uint32": "U32", "uint64": "U64",
}  # fmt: skip
EXACT_INTEGER = 2**53  # larger ones would be rounded to a double before they are rounded to the format


@functools.lru_cache(maxsize=4096)
def plan(format, cast=None, rounding=None, overflow=None, subnormals=None, random_bits=None) -> _narrow.Plan:
    """A format and a cast, read once for the same words."""
    if not isinstance(format, str) and isinstance(format, (int, float, bytes, tuple)):
        raise TypeError(f"format: a name is needed, not {format!r}")
    for name, word in {"cast": cast, "rounding": rounding, "overflow": overflow, "subnormals": subnormals}.items():
        if word is not None and not isinstance(word, str):
            raise TypeError(f"{name}: a word is needed, not {word!r}")
    if random_bits is not None and (not isinstance(random_bits, int) or not 1 <= random_bits <= 64):
        raise ValueError(f"random_bits: {random_bits!r}; right are 1 to 64")
    return _narrow.plan(str(format), cast, rounding, overflow, subnormals, random_bits)


class Given(NamedTuple):
    """An argument: its memory, what its elements mean ("" for integers), and where results go."""

    array: np.ndarray
    format: str
    library: str  # numpy, torch, jax, ml_dtypes, scalar; with ":" and a device where a copy of it was made

    @property
    def type(self) -> str:
        name = DTYPE_OF.get(self.format, "")
        return DTYPES[name][1] if name else INTEGERS[self.array.dtype.name]


def _from_torch(x: Any) -> Given:
    torch = sys.modules["torch"]
    x = plain(x)
    if x.device.type != "cpu":
        raise TypeError(f"a tensor on {x.device}: x.cpu() brings it to the CPU")
    name = str(x.dtype).removeprefix("torch.")
    if type(x) is not torch.Tensor:
        try:
            x.numpy()
        except TypeError:  # numpy has no such type
            pass
        except RuntimeError:
            raise TypeError(f"{type(x).__name__}: no tensor whose numbers are in memory") from None
    if name in ("float32", "float64") or name in INTEGERS:
        return Given(x.numpy(), DTYPES[name][0] if name in DTYPES else "", "torch")
    if name not in DTYPES:
        raise TypeError(f"torch.{name}: no format of one element a number")
    view = x.view({1: torch.uint8, 2: torch.int16}[x.element_size()]).numpy()
    return Given(view.view(UINT[view.itemsize]), DTYPES[name][0], "torch")


def _from_numpy(x: np.ndarray, library: str) -> Given:
    if isinstance(x, np.ma.MaskedArray):
        raise TypeError("a masked array: x.filled(value) says what the masked numbers are")
    x = np.asarray(x)
    name = x.dtype.name
    if not x.dtype.isnative:
        x = x.astype(x.dtype.newbyteorder("="))
    if name in ("float32", "float64"):
        return Given(x, DTYPES[name][0], library)
    if name in DTYPES:
        known = name == "float16"
        return Given(x.view(UINT[x.itemsize]), DTYPES[name][0], library if known or library in ("jax", "numpy scalar") else "ml_dtypes")
    if name in INTEGERS:
        return Given(x, "", library)
    raise TypeError(f"an array of {name}: no format holds that; floating numbers, integers and their codes are taken")


def _from_jax(x: Any) -> Given:
    devices = list(x.devices())
    if len(devices) > 1 or (KERNELS is None and devices[0].platform != "cpu"):
        why = "on several devices" if len(devices) > 1 else "on a device, and this build of narrow has no CUDA"
        raise TypeError(f"a jax array {why}: jax.device_get(x) brings it to the CPU")
    return _from_numpy(np.asarray(x), "jax")._replace(library=f"jax:{devices[0].platform}:{devices[0].id}")


def given(x: Any) -> Given:
    """Any argument as memory."""
    if isinstance(x, np.ndarray):
        return _from_numpy(x, "numpy")
    if (d := on_device(x)) is not None:
        host = given(d.host())
        return host._replace(library=d.place)
    if torch_of(x) is not None:
        return _from_torch(x)
    if isinstance(x, (bool, int, float, np.generic)):
        if isinstance(x, np.generic):
            return _from_numpy(np.asarray(x), "numpy scalar")
        return Given(np.asarray(number(x)), "fp64", "scalar")
    if is_jax(x):
        return _from_jax(x)
    if isinstance(x, (str, bytes)):
        raise TypeError(f"text is no array: {x!r}")
    array = np.asarray(x)
    if array.dtype == object:
        raise TypeError(f"{type(x).__name__} is no array of numbers")
    return _from_numpy(array, "numpy")


def number(x: Any, name: str = "x") -> float:
    """A number as a float that is no other number."""
    try:
        value = float(x)
    except (TypeError, ValueError):
        raise TypeError(f"{name}: a number is needed, not {x!r}") from None
    except OverflowError:
        raise ValueError(f"{name}: the integer is larger than any double") from None
    if isinstance(x, int) and int(value) != x:
        raise ValueError(f"{name}: {x} is no double; it would be rounded twice")
    return value


def bit_count(random_bits: Any) -> int | None:
    """random_bits as Python's integer, where it is one of any library."""
    return int(random_bits) if isinstance(random_bits, np.integer) else random_bits


def seed_word(seed: Any) -> int:
    if not isinstance(seed, (int, np.integer)) or not 0 <= seed < 2**64:
        raise ValueError(f"seed: {seed!r}; right are integers from 0 to 2^64 - 1")
    return int(seed)


def dense(array: np.ndarray, dtype: Any = None) -> np.ndarray:
    """The array itself, or a copy where it has gaps, another type or no alignment."""
    return np.require(array, dtype, ["C", "A"]) if array.ndim else np.array(array, dtype)


def floats(g: Given) -> np.ndarray:
    """The numbers as float32 or float64: the memory itself where it holds them, else decoded, exactly."""
    if g.format in ("fp32", "fp64"):
        return g.array
    if not g.format:
        if (
            g.array.size
            and g.array.dtype.itemsize == 8
            and max(abs(int(g.array.max())), abs(int(g.array.min()))) > EXACT_INTEGER
        ):
            raise ValueError("integers beyond 2^53 would be rounded twice; give them as float64 to say where")
        return g.array.astype(F64)
    return decoded(plan(g.format), g.array, F32)


def in_order(call, plans, x: np.ndarray, out: np.ndarray, *rest) -> None:
    """Calls on both where they lie; where their layouts differ, by way of copies in C order."""
    if call(*plans[:1], x, *plans[1:], out, *rest):
        return
    copy = np.empty(out.shape, out.dtype)
    call(*plans[:1], np.array(x, order="C", copy=True), *plans[1:], copy, *rest)
    out[...] = copy


def check_codes(codes: np.ndarray, p: _narrow.Plan) -> None:
    """Bits beyond those of the format would be lost without a word."""
    if 8 * codes.itemsize > p.bits and codes.size and int(codes.max()).bit_length() > p.bits:
        raise ValueError(f"codes of {p.name} are integers from 0 to {2**p.bits - 1:#x}")


def decoded(p: _narrow.Plan, codes: np.ndarray, dtype: np.dtype) -> np.ndarray:
    out = np.empty_like(codes, dtype=dtype, subok=False)
    in_order(_narrow.decode, (p,), codes, out)
    return out


def dtype_name(dtype: Any) -> str:
    """What a dtype of any library is called."""
    if isinstance(dtype, str) and dtype in DTYPES:  # numpy knows "bfloat16" only after ml_dtypes
        return dtype
    return str(dtype).removeprefix("torch.") if type(dtype).__module__ == "torch" else np.dtype(dtype).name


def _numpy_dtype(name: str) -> np.dtype:
    """numpy's own, or the one that ml_dtypes adds to them; narrow itself does without that package."""
    if name == "float16":
        return np.dtype(np.float16)
    try:
        import ml_dtypes
    except ImportError:
        raise ImportError(f"numpy has no {name}: install ml_dtypes, or take the codes") from None
    return np.dtype(getattr(ml_dtypes, name))


def wrap(array: np.ndarray, library: str, dtype: str = "") -> Any:
    """A result as the library of the argument; dtype names what codes stand for ("bfloat16")."""
    if ":" in library:
        host = library.partition(":")[0]
        return back_on(library, wrap(array, "torch" if host == "torch" else "numpy", dtype))
    if library == "torch":
        torch = sys.modules["torch"]
        if dtype and array.dtype.kind == "u" and dtype != array.dtype.name:
            signed = array.view({1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}[array.itemsize])
            if not hasattr(torch, dtype):
                raise ValueError(f"torch has no {dtype}")
            return torch.from_numpy(signed).view(getattr(torch, dtype))
        return torch.from_numpy(array)
    if dtype and dtype != array.dtype.name and array.dtype.kind == "u":
        array = array.view(_numpy_dtype(dtype))
    if library in ("scalar", "numpy scalar"):
        return array.item() if library == "scalar" else array[()]
    return array


def check_out(out: Any) -> None:
    torch = torch_of(out)
    if torch is None and not isinstance(out, np.ndarray) and on_device(out) is None:
        raise TypeError(f"out: an array of numpy or a tensor of torch is needed, not {type(out).__name__}")
    if torch is not None:
        if out.requires_grad:
            raise ValueError("out: it requires a gradient; give out.detach() or out.data")
        if out.is_conj() or out.is_neg():
            raise ValueError("out: a conjugate or negated view, whose memory holds other numbers; give its base")
        if hasattr(torch.autograd.graph, "increment_version"):
            torch.autograd.graph.increment_version(out)


def is_one_place(strides: Any, shape: Any, itemsize: int) -> bool:
    """Whether elements of an array lie in the same place (or may: no layout of slices looks like that)."""
    end = itemsize
    for step, n in sorted((abs(step), n) for step, n in zip(strides, shape) if n != 1):
        if step < end:
            return 0 not in shape
        end += step * (n - 1)
    return False


def stored(out: Any, result: np.ndarray, name: str) -> Any:
    """out, which holds the result: target() was its memory, or a copy on the host that goes back."""
    if (d := on_device(out)) is not None:
        d.assign(wrap(result, d.place, name))
    return out


def target(out: Any, shape: tuple[int, ...], kinds: dict[str, np.dtype]) -> np.ndarray:
    """The memory of out=, which must be one of these dtypes (by name, and how it is written); stored() ends it."""
    check_out(out)
    g = given(out)
    name = dtype_name(out.dtype)
    if name not in kinds:
        raise ValueError(f"out: it holds {name}; right here: {', '.join(kinds)}")
    if g.array.shape != tuple(shape):
        raise ValueError(f"out: its shape is {g.array.shape}, and that of the array {tuple(shape)}")
    if not g.array.flags.writeable:
        raise ValueError("out: it is read-only")
    if is_one_place(g.array.strides, g.array.shape, g.array.itemsize):
        raise ValueError("out: several of its elements are one place in memory")
    if g.array.size and isinstance(out, np.ndarray) and not np.may_share_memory(g.array, out):
        raise ValueError("out: an array in the machine's byte order is needed")
    return g.array.view(kinds[name])
