"""Compilation of a Python function to machine code on its first call, kept for the next process.

A new installation waits for this once, so it must not do anything twice. Numba by itself makes machine code of every function, and
optimizes it again in each that calls it. Here a function that another one calls becomes a part of that: typed once, optimized and turned
into machine code with it. One that is called from Python becomes a kernel of its own.
"""

from __future__ import annotations

import dis
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias, TypeVar, cast

import llvmlite.binding
from numba.core.caching import FunctionCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.registry import CPUDispatcher
from numba.core.runtime.nrt import rtsys

from qmcif_engine.kernels.undisturbed import undisturbed

if TYPE_CHECKING:
    from collections.abc import Callable

_P = ParamSpec("_P")
_R = TypeVar("_R")

_Untyped: TypeAlias = Any
"""Numba's own things, which it gives no types."""

_OPTIONS = {"nopython": True, "nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}


def compiled(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compile a function without the interpreter lock, and store the code beside it or in the user's cache where one can be written.

    Divisions follow NumPy (no check for zero), and no operation is reordered: the same input gives the same bytes.
    """
    return cast("Callable[_P, _R]", Part(function))


class ForgivingCache(FunctionCache):
    """Numba's cache, in which a full disk costs time and not the run."""

    def save_overload(self, sig: object, data: object) -> None:
        """Store machine code, if that can be."""
        with suppress(OSError):
            super().save_overload(sig, data)  # type: ignore[no-untyped-call]

    def load_overload(self, sig: object, target_context: object) -> object:
        """Return stored machine code, or None where none can be read.

        Numba would first load all that it needs for compiling, a third of a second; code that is there needs the runtime only.
        """
        rtsys.initialize(target_context)
        with suppress(OSError), self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)  # type: ignore[no-untyped-call]
        return None


class Part(CPUDispatcher):
    """A function as other compiled functions see it; Python sees a kernel of its own, made when it is first called."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function, targetoptions={**_OPTIONS, "no_cpython_wrapper": True}, pipeline_class=PartCompiler)

    @cached_property
    def kernel(self) -> _Untyped:
        """The function as Python calls it."""
        kernel: _Untyped = CPUDispatcher(self.py_func, targetoptions=_OPTIONS, pipeline_class=KernelCompiler)
        with suppress(RuntimeError):  # no place for the code: it is compiled again in every process
            kernel._cache = ForgivingCache(self.py_func)  # type: ignore[no-untyped-call]
        return kernel

    def add_overload(self, cres: _Untyped) -> None:
        """Keep a part for its callers only: Python could not call it."""
        self.overloads[tuple(cres.signature.args)] = cres

    def _compile_for_args(self, *_args: object, **_keywords: object) -> _Untyped:
        """Return what answers a call from Python, for which nothing is compiled here."""
        return self.kernel


class KernelCompiler(Compiler):
    """Numba's compiler, left undisturbed."""

    def compile_extra(self, func: Callable[..., object]) -> _Untyped:
        """Compile a function."""
        self.state.library = KernelLibrary(self.state.targetctx.codegen(), func.__qualname__)  # type: ignore[no-untyped-call]
        self.state.library.enable_object_caching()
        with undisturbed():
            return super().compile_extra(func)  # type: ignore[no-untyped-call]


class KernelLibrary(JITCodeLibrary):
    """The machine code of a function."""

    def serialize_using_object_code(self) -> tuple[str, str, tuple[bytes, bytes]]:
        """Return what is stored: the machine code, and the names of its functions.

        Numba looks for the names in the code before it was compiled, of which they are all that is needed here: parts come from elsewhere.
        """
        self._ensure_finalized()  # type: ignore[no-untyped-call]
        names = [function.name for function in self._final_module.functions if not function.is_declaration]
        outline = llvmlite.binding.parse_assembly("".join(f'define void @"{name}"() {{ ret void }}\n' for name in names))
        return self.name, "object", (self._get_compiled_object(), outline.as_bitcode())  # type: ignore[no-untyped-call]


class PartCompiler(Compiler):
    """Numba's compiler for functions that are to be linked into others."""

    def compile_extra(self, func: Callable[..., object]) -> _Untyped:
        """Compile a function as far as its callers need it."""
        self.state.library = PartLibrary(self.state.targetctx.codegen(), func)
        return super().compile_extra(func)  # type: ignore[no-untyped-call]


class PartLibrary(JITCodeLibrary):
    """The code of a function and of those it calls, as it is before it is optimized.

    A function with a loop is not copied into its callers: as many copies would have to be optimized, and in a small function the compiler
    sees best that a loop can use vector instructions.
    """

    def __init__(self, codegen: _Untyped, function: Callable[..., object]) -> None:
        super().__init__(codegen, function.__qualname__)  # type: ignore[no-untyped-call]
        self._has_loop = any(step.opname == "FOR_ITER" or "BACKWARD" in step.opname for step in dis.get_instructions(function))

    def finalize(self) -> None:
        """Link what is called, and leave the rest to the callers."""
        self._raise_if_finalized()  # type: ignore[no-untyped-call]
        if self._has_loop:
            for function in self._final_module.functions:
                if not function.is_declaration:
                    function.add_function_attribute("noinline")
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Return no address: a part has none."""
        self._ensure_finalized()  # type: ignore[no-untyped-call]
        return 0

    @property
    def codegen(self) -> PartLibrary:
        """Whom numba asks to connect the code with its Python environment, of which a part has no use: no error names its line."""
        return self

    def set_env(self, env_name: str, env: object) -> None:
        """Connect nothing."""
