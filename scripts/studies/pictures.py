"""How the pictures of the studies look: the same rows give the same bytes."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's, which the colour-blind tell apart.
BLACK, ORANGE, SKY, GREEN, BLUE, VERMILION, PURPLE = (
    "#000000",
    "#E69F00",
    "#56B4E9",
    "#009E73",
    "#0072B2",
    "#D55E00",
    "#CC79A7",
)


def drawn(draw: Callable[[Figure], None], width_in: float, height_in: float, suffix: str = "svg") -> bytes:
    """The bytes of a picture."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context():
        mpl.rcdefaults()  # A user's own style would change the picture from one machine to the next.
        mpl.rc("svg", hashsalt="prfaas-opt", fonttype="none")
        mpl.rc("font", size=9.0, family="sans-serif")
        mpl.rc("savefig", dpi=150.0, facecolor="white")
        mpl.rc("axes.spines", top=False, right=False)
        figure = Figure(figsize=(width_in, height_in), layout="constrained")
        draw(figure)
        content = io.BytesIO()
        figure.savefig(content, format=suffix, metadata={"Date": None, "Creator": None} if suffix == "svg" else None)
    return content.getvalue()
