"""Compare the presets, change single settings, and keep them in a file that the command line reads too."""

from pathlib import Path

from qmcif_engine import PRESETS, FusionConfig, evaluate, fuse, make_focus_stack

stack = make_focus_stack(n_images=2, shape=(160, 200), seed=2)
images = list(stack.images)
for name, preset in PRESETS.items():
    scores = evaluate(images, fuse(images, preset).fused, truth=stack.truth)
    print(f"{name:8s} {scores.signal_to_noise_db:.1f} dB")

config = FusionConfig().replaced({"blend_px": 4, "smoothness": 2})
Path("settings.toml").write_text(config.to_toml(), encoding="utf-8")
assert FusionConfig.from_toml(Path("settings.toml").read_text(encoding="utf-8")) == config
print("settings.toml works with: qmcif fuse ... --config settings.toml")
