"""``qmcif learn-dictionary``: the shipped dictionaries, learned again."""

from __future__ import annotations

from qmcif_engine.cli.options import Request
from qmcif_engine.cli.terminal import progress_bar
from qmcif_engine.errors import OutputError
from qmcif_engine.io.output.placement import check_place
from qmcif_engine.method.dictionary.learning import learn_shipped_dictionaries, save_dictionaries


def run(options: Request) -> None:
    """Learn all shipped dictionaries and save them in one file."""
    if options.output.suffix != ".npz":
        msg = f"{str(options.output)!r} has the suffix {options.output.suffix!r}; .npz is needed: rename the target"
        raise OutputError(msg)
    check_place(options.output, overwrite=options.overwrite)
    with progress_bar("learning", is_quiet=False) as move:
        atoms = learn_shipped_dictionaries(progress=move)
    save_dictionaries(options.output, atoms, overwrite=options.overwrite)
    sizes = ", ".join(f"{name} {values.shape[1]}x{values.shape[2]}" for name, values in atoms.items())
    print(f"learned {sizes}: {options.output}")
