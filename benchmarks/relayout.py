#!/usr/bin/env python3
"""Does a run that moves between layouts learn like one that stays? Needs build/release/ulmus, and
the tokens that ./quickstart.sh made:

    benchmarks/relayout.py OUTPUT.svg [STEPS_EACH]

Trains configs/quickstart.toml on one rank, and the same steps on 4 ranks, then 3, then 1, then 2
with parameters resharded, each continuing the checkpoint of the one before. Prints the losses of
both and draws them over each other. For scale, a third run: one rank of two threads, whose sums
round otherwise than those of one thread, and which is as right.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
LEGS = [  # ranks, keys, colour
    (4, ["parallel.expert=2"], "#d62728"),
    (3, ["parallel.expert=1"], "#2ca02c"),
    (1, [], "#9467bd"),
    (2, ["parallel.expert=2", "parallel.params=resharded"], "#ff7f0e"),
]


def train(folder, ranks, steps, keys, threads=1):
    """Continues the run in `folder` until `steps`."""
    command = ["mpirun", "-n", str(ranks), "--oversubscribe", "--bind-to", "none",
               "build/release/ulmus", "train", "configs/quickstart.toml"]
    settings = [f"run.dir={folder}", f"run.max_steps={steps}", "run.log_every=1",
                "optim.schedule=constant", "optim.final_fraction=0.1",
                "optim.decay_fraction=0.2", "eval.every=0", "checkpoint.every=0",
                f"device.threads={threads}", "batch.micro_sequences=1", *keys]
    for setting in settings:
        command += ["--set", setting]
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    finished = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True,
                              check=False)
    if finished.returncode != 0:
        sys.exit(finished.stderr)


def losses_of(folder):
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["loss/ce"] for line in lines]


def draw(path, unbroken, moving, steps_each):
    """Two curves in one picture: the unbroken run wide and grey, the other thin and coloured."""
    width, height, margin = 900, 420, 50
    low, high = min(unbroken + moving), max(unbroken + moving)

    def place(step, loss):
        return (margin + (width - 2 * margin) * step / len(unbroken),
                height - margin - (height - 2 * margin) * (loss - low) / (high - low))

    def line(first, losses, style):
        points = " ".join("{:.1f},{:.1f}".format(*place(first + i, loss))
                          for i, loss in enumerate(losses))
        return f'<polyline fill="none" {style} points="{points}"/>'

    def text(x, y, content, colour="#000", anchor="start"):
        return (f'<text x="{x:.0f}" y="{y:.0f}" fill="{colour}" text-anchor="{anchor}" '
                f'font-family="sans-serif" font-size="13">{content}</text>')

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}">',
             '<rect width="100%" height="100%" fill="#fff"/>',
             line(0, unbroken, 'stroke="#ccc" stroke-width="7"'),
             text(margin, 30, "loss, nats a token: one rank (grey) and the run that moves"),
             text(margin - 6, place(0, high)[1] + 4, f"{high:.2f}", anchor="end"),
             text(margin - 6, place(0, low)[1] + 4, f"{low:.2f}", anchor="end")]
    for leg, (ranks, keys, colour) in enumerate(LEGS):
        first = leg * steps_each
        parts.append(line(first, moving[first:first + steps_each + 1],
                          f'stroke="{colour}" stroke-width="1.5"'))
        x, _ = place(first, low)
        parts.append(text(x, height - 20, f"from step {first + 1}: {ranks} ranks", colour))
        parts.append(text(x, height - 6, ", ".join(key.split(".")[1] for key in keys), colour))
    path.write_text("\n".join(parts) + "\n</svg>\n", encoding="utf-8")


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    picture = pathlib.Path(sys.argv[1])
    steps_each = int(sys.argv[2]) if len(sys.argv) == 3 else 75
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        train(folder / "unbroken", 1, len(LEGS) * steps_each, [])
        for leg, (ranks, keys, _) in enumerate(LEGS):
            train(folder / "moving", ranks, (leg + 1) * steps_each, keys)
        train(folder / "rounded", 1, len(LEGS) * steps_each, [], threads=2)
        unbroken, moving, rounded = (losses_of(folder / name)
                                     for name in ("unbroken", "moving", "rounded"))
    assert len(unbroken) == len(moving) == len(rounded) == len(LEGS) * steps_each
    print("step  ranks  one rank   moving    difference   two threads")
    for step in range(0, len(moving), max(1, steps_each // 5)):
        ranks = LEGS[step // steps_each][0]
        print(f"{step + 1:4}  {ranks:5}  {unbroken[step]:8.5f}  {moving[step]:8.5f}  "
              f"{moving[step] / unbroken[step] - 1:+10.1e}    "
              f"{rounded[step] / unbroken[step] - 1:+10.1e}")
    for leg, (ranks, keys, _) in enumerate(LEGS):
        part = range(leg * steps_each, (leg + 1) * steps_each)
        worst, scale = (max(abs(run[i] / unbroken[i] - 1) for i in part)
                        for run in (moving, rounded))
        print(f"{ranks} ranks {' '.join(keys)}: largest relative difference {worst:.1e}, "
              f"of the two threads {scale:.1e}")
    draw(picture, unbroken, moving, steps_each)


if __name__ == "__main__":
    main()
