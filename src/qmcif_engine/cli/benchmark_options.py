"""Options of ``qmcif benchmark``; nothing here computes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qmcif_engine.cli.input_options import to_path
from qmcif_engine.config.presets import PRESETS

if TYPE_CHECKING:
    from argparse import ArgumentParser

_HELP = """\
data sets:
  NAME_a.png, NAME_b.png, further letters for further images, NAME_truth.png where the sharp image is known;
  or one folder per set, its images in the order of their names, truth.png among them the truth
names of --method:
  sr, csr, mgimf, qhosvd: the methods in the paper's comparison that are not neural networks; guided-filter, laplacian-pyramid: simple ones
images of --fused-by:
  named NAME, or with NAME between separators: 01.png, 01_fused.png, lytro_01_cnn.png
"""


def add_benchmark(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    parser.epilog = _HELP
    parser.add_argument("dataset", type=to_path, metavar="DATASET_DIR", help="folder of image sets; see below")
    parser.add_argument(
        "-o", "--output", type=to_path, required=True, metavar="REPORT_DIR", help="folder for the report; an earlier run there is resumed"
    )
    parser.add_argument(
        "--preset",
        action="append",
        default=[],
        metavar="NAME",
        dest="presets",
        help=f"settings to fuse with: {', '.join(PRESETS)}; may be repeated",
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", dest="assignments", help="change one setting of every preset"
    )
    parser.add_argument(
        "--method",
        action="append",
        default=[],
        metavar="NAME",
        dest="methods",
        help="run a published method too; see below; may be repeated",
    )
    parser.add_argument(
        "--fused-by", action="append", default=[], metavar="NAME=DIR", help="score another method's images too; may be repeated"
    )
    parser.add_argument(
        "--published", metavar="SET", help="published values to show: lytro, mffw, mfi_whu or none (default: by the folder's name)"
    )
    parser.add_argument(
        "--border",
        type=int,
        metavar="PX",
        help="also score the images without their outermost PX pixels, in a table of its own, and leave as much out of the inner PSNR",
    )
    parser.add_argument("--jobs", type=int, metavar="N", help="worker processes; does not change the results (default: all cores)")
    parser.add_argument(
        "--ablation",
        action="store_true",
        help="make the two ablation tables of the paper instead, starting from the preset paper or the given one",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace a report on other data or with other settings")
