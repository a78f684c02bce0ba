"""Write Vega, Vega-Lite and Vega-Embed into the package as one script, so that reports need no converter.

python tools/build_vega.py

The script is the one that `vl-convert-python` bundles for the Vega-Lite of the installed Altair.
"""

from __future__ import annotations

import lzma
from pathlib import Path

import vl_convert

from unseen.reports.page import BUNDLE
from unseen.reports.theme import vegalite_version

if __name__ == "__main__":
    bundle = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vegalite_version())
    target = Path(__file__).parents[1] / "src" / "unseen" / "reports" / BUNDLE
    target.write_bytes(lzma.compress(bundle.encode(), preset=9))
    print(f"{target}: Vega-Lite {vegalite_version()}, {target.stat().st_size:,} bytes")
