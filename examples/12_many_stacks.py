"""Fuse every stack below a folder with the command line, and read its report."""

import json
import subprocess
import sys
from pathlib import Path

from qmcif_engine import make_focus_stack, write_image

for seed, name in enumerate(("ant", "bee")):
    folder = Path("stacks", name)
    folder.mkdir(parents=True, exist_ok=True)
    for number, image in enumerate(make_focus_stack(n_images=2, shape=(120, 160), seed=seed).images, start=1):
        write_image(folder / f"{number}.png", image, overwrite=True)
Path("stacks", "broken").mkdir(exist_ok=True)
Path("stacks", "broken", "1.png").write_text("no image")

command = [sys.executable, "-m", "qmcif_engine", "batch", "stacks", "-o", "results", "--overwrite", "--json"]
finished = subprocess.run(command, capture_output=True, text=True, check=False)  # 1 where a stack failed: here one does
for row in json.loads(finished.stdout)["stacks"]:
    print(f"{row['name']:8s} {row['status']:8s} {row['message']}")
