"""The figures printed in the paper, for comparison with what is measured here.

Source: Weihua Yang and Yicong Zhou, *Quaternion Sparse Decomposition for Multi-focus Color Image Fusion*, arXiv 2505.02365v2 (2025), the
comparison table of section IV-C and the two ablation tables of sections IV-B and IV-D. The names of the methods are the paper's; its own
method is "QMCIF (paper)" here. The means of the comparison table are over the complete data sets.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from qmcif_engine.errors import InvalidConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

SYMBOLS = ("Q_MI", "Q_G", "Q_P", "Q_E", "Q_Y", "Q_CB")
NO_PUBLISHED_SET = "none"

PAPER = "Yang and Zhou, Quaternion Sparse Decomposition for Multi-focus Color Image Fusion, arXiv 2505.02365v2"


@dataclass(frozen=True, slots=True)
class PublishedSet:
    """The printed means of one data set, and over how many pairs they were taken."""

    name: str
    n_pairs: int
    means: Mapping[str, Mapping[str, float]]


def _read_table(text: str) -> Mapping[str, Mapping[str, float]]:
    # from the right, because a name may have a space in it
    rows = [line.rsplit(maxsplit=len(SYMBOLS)) for line in text.strip().splitlines()]
    return MappingProxyType({name.strip(): dict(zip(SYMBOLS, map(float, values), strict=True)) for name, *values in rows})


_LYTRO = _read_table("""
    SR             1.0642  .7445  .8168  .8797  .9688  .7756
    CSR            1.0030  .7353  .8294  .8794  .9337  .7612
    MGIMF          1.1154  .7428  .8106  .8419  .9857  .7911
    QHOSVD         1.0540  .7491  .8310  .8800  .9769  .7839
    SAMF           1.1781  .7602  .8412  .8797  .9877  .8014
    MFIF-GAN       1.0945  .7179  .8307  .8787  .9770  .7976
    ZMFF            .8796  .7013  .7830  .8678  .9313  .7399
    DBMFIF         1.0589  .7480  .8398  .8802  .9651  .7775
    TCMOA           .9926  .7401  .8188  .8782  .9574  .7597
    SwinMFF         .7689  .7013  .7773  .8257  .8867  .6413
    MCCSR-Net      1.1920  .7619  .8456  .8772  .9886  .8084
    QMCIF (paper)  1.1656  .7603  .8472  .8814  .9896  .8108
""")

_MFFW = _read_table("""
    SR              .7181  .6278  .5500  .8078  .9349  .6503
    CSR             .9023  .7065  .6903  .8222  .8556  .6861
    MGIMF          1.0529  .7309  .7363  .8096  .9507  .7338
    QHOSVD          .7224  .7249  .7383  .8187  .8221  .6050
    SAMF           1.0863  .7310  .6995  .7974  .9332  .7101
    MFIF-GAN       1.0681  .7320  .7550  .8239  .9735  .7558
    ZMFF            .7728  .6651  .6476  .7985  .8775  .6770
    DBMFIF          .8703  .6959  .6620  .8169  .9048  .6642
    TCMOA           .7545  .6034  .5307  .7874  .7681  .6475
    SwinMFF         .7259  .6312  .6336  .7445  .7285  .6050
    MCCSR-Net       .8891  .6925  .6898  .7903  .8961  .7233
    QMCIF (paper)  1.0887  .7348  .7642  .8275  .9579  .7456
""")

_MFI_WHU = _read_table("""
    SR             1.1329  .7294  .7952  .8424  .9850  .8236
    CSR             .9802  .7157  .7897  .8423  .9427  .7827
    MGIMF          1.1269  .7151  .7782  .7973  .9825  .8157
    QHOSVD         1.1507  .7299  .8008  .8397  .9869  .8291
    SAMF           1.2155  .7310  .7980  .8366  .9890  .8268
    MFIF-GAN       1.1648  .7343  .7994  .8410  .9890  .8304
    ZMFF            .6933  .6342  .6705  .7915  .8540  .6860
    DBMFIF         1.0461  .7219  .7933  .8424  .9523  .7900
    TCMOA           .8635  .6389  .7026  .7748  .9139  .7655
    SwinMFF         .6921  .6776  .7436  .7906  .8406  .6599
    MCCSR-Net      1.2011  .7316  .7996  .8336  .9807  .8298
    QMCIF (paper)  1.1743  .7361  .8017  .8433  .9887  .8318
""")

PUBLISHED_SETS: Mapping[str, PublishedSet] = MappingProxyType(
    {
        "lytro": PublishedSet("lytro", 20, _LYTRO),
        "mffw": PublishedSet("mffw", 13, _MFFW),
        "mfi_whu": PublishedSet("mfi_whu", 30, _MFI_WHU),
    }
)
"""By the name of the data set; the numbers of pairs are those of section IV-A."""

ABLATION_SET = "mffw"
ABLATION_N_PAIRS = 10
ABLATION_SYMBOLS = ("Q_MI", "Q_G", "Q_P", "Q_E", "Q_CB")
"""The ablation tables leave Q_Y out."""

ABLATIONS: Mapping[str, tuple[float, ...]] = MappingProxyType(
    {
        "alpha = 0": (1.0580, 0.7359, 0.7488, 0.8240, 0.7298),
        "beta = 0": (1.0052, 0.7338, 0.7282, 0.8279, 0.6980),
        "lambda = 0": (1.0140, 0.7324, 0.7432, 0.8259, 0.7127),
        "5 x 5": (1.0503, 0.7376, 0.7277, 0.8263, 0.7115),
        "10 x 10": (1.0401, 0.7367, 0.7567, 0.8276, 0.7276),
        "QBDF base scale": (0.9312, 0.7021, 0.7113, 0.8099, 0.6830),
        "QBDF detail scale": (1.0388, 0.7357, 0.7457, 0.8255, 0.7228),
        "equal": (1.0690, 0.7346, 0.7556, 0.8183, 0.7340),
        "real": (0.9555, 0.7082, 0.6849, 0.8043, 0.6748),
    }
    | dict.fromkeys(("QFED", "8 x 8", "QSSR", "adaptive", "quaternion"), (1.0685, 0.7374, 0.7832, 0.8234, 0.7508))
)
"""By the label of the row in our tables; five rows are the same full method."""


def choose_published(asked: str | None, folder_name: str) -> PublishedSet | None:
    """Return the published set asked for, or the one the folder is named after, or None.

    Raises
    ------
    InvalidConfigError
        When a set is asked for that the paper does not have.
    """
    if asked is None:
        return PUBLISHED_SETS.get(_normalize(folder_name))
    name = _normalize(asked)
    if name == NO_PUBLISHED_SET:
        return None
    if name not in PUBLISHED_SETS:
        msg = f"--published {asked!r} is not known; choose one of: {', '.join(PUBLISHED_SETS)}, {NO_PUBLISHED_SET}"
        raise InvalidConfigError(msg)
    return PUBLISHED_SETS[name]


def _normalize(name: str) -> str:
    return name.lower().replace("-", "_")
