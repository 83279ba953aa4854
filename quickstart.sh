#!/usr/bin/env bash
# From nothing to a trained mixture-of-experts model on Debian 12: installs what is missing, builds
# the program, gets Jane Austen's novels, trains on them, and says how good the result is.
#
#   ./quickstart.sh
#
# Asks nothing and may be run again: what is there already is not made again, and an interrupted
# training continues where it was. Everything it makes lies in build/, corpus/ and runs/.
set -euo pipefail
cd "$(dirname "$0")"

config=configs/quickstart.toml
build=build/release
ulmus=$build/ulmus
corpus=corpus/austen
tokens=$corpus/tokens
tokenizer=$corpus/tokenizer.json
run=runs/quickstart
vocab=4096
prompt="It was a truth"

start=$SECONDS
stage() { printf '\n== %s (%d s)\n' "$1" $((SECONDS - start)) >&2; }

# Runs a command whose output only matters when it fails, or when somebody watches.
quietly() {
  local log=$1
  shift
  if [ -t 2 ]; then "$@" >&2; return; fi
  "$@" >"$log" 2>&1 || { tail -n 40 "$log" >&2; echo "quickstart: failed: $* ($log)" >&2; exit 1; }
}

stage "1/7 packages"
tools/install_dependencies.sh --build

stage "2/7 build"
mkdir -p "$build"
quietly "$build/configure.log" cmake --preset release -DULMUS_BUILD_TESTS=OFF
quietly "$build/build.log" \
  cmake --build "$build" --parallel "$(nproc)" --target ulmus --target austen_text
"$ulmus" --version >&2

stage "3/7 corpus"
austen_text=$(find "$build" -name austen_text -type f -perm -u+x | head -n 1)
tools/corpus/austen.sh "$austen_text" "$corpus" || {
  echo "quickstart: the text could not be fetched; the lines above say what to do" >&2
  exit 1
}

stage "4/7 tokenizer and tokens"
if [ ! -f "$tokens/complete" ]; then
  [ -f "$tokenizer" ] ||
    "$ulmus" data tokenizer-train "$corpus/train" --vocab "$vocab" --output "$tokenizer"
  for part in train heldout; do
    "$ulmus" data tokenize "$corpus/$part" --tokenizer "$tokenizer" --output "$tokens" \
      --name "$part" --overwrite
  done
  touch "$tokens/complete"
fi

stage "5/7 training ($config)"
"$ulmus" train "$config"

stage "6/7 how fast, and how good?"
# Useful floating-point operations of training against the best this machine does in dense products.
ceiling=$("$ulmus" bench ceiling --json - 2>"$build/ceiling.log" |
  sed -n 's/^  "gflops": \([0-9.]*\).*/\1/p' | head -n 1) || ceiling=
[ -n "$ceiling" ] || echo "quickstart: no GEMM ceiling was measured ($build/ceiling.log)" >&2
speeds='"throughput/tokens_per_s":[0-9.]*,"throughput/useful_gflops":[0-9.]*'
grep -o "$speeds" "$run/metrics.jsonl" | awk -F '[:,]' -v ceiling="$ceiling" '
  { tokens += $2; gflops += $4 }
  END {
    if (NR == 0) exit
    printf "speed: %.0f tokens/s, %.1f useful GFLOP/s", tokens / NR, gflops / NR
    if (ceiling > 0) {
      printf "; GEMM ceiling of this machine %.1f: %.2f of it", ceiling, gflops / NR / ceiling
    }
    print ""
  }' || true
echo "held-out text: the second half of Pride and Prejudice"
"$ulmus" eval "$config" --checkpoint "$run"
"$ulmus" data show "$tokens/train.tokens" --held-out "$tokens/heldout.tokens" | tail -n 4
# What a compressor needs for the held-out text after it has seen the training text.
compressed_bytes() { cat "$@" | xz -6 -T1 -c | wc -c; }
train_bytes=$(compressed_bytes "$corpus"/train/*.txt)
both_bytes=$(compressed_bytes "$corpus"/train/*.txt "$corpus"/heldout/*.txt)
heldout_bytes=$(cat "$corpus"/heldout/*.txt | wc -c)
awk -v train="$train_bytes" -v both="$both_bytes" -v text="$heldout_bytes" \
  'BEGIN { printf "%-44s %22.4f\n", "xz -6 after the training text", 8 * (both - train) / text }'

stage "7/7 a sample"
"$ulmus" generate --checkpoint "$run" --prompt "$prompt" --tokens 120 --temperature 0.8 --seed 1

cat >&2 <<DONE

== done in $((SECONDS - start)) s. Where to look next:

  $run/metrics.jsonl      one line for each logged step: loss, speed, load of every expert
  $run/checkpoints/       the trained weights (safetensors)
  $config   the settings; any of them: $ulmus train $config --set KEY=VALUE
  docs/configuration.md    what every setting means
  $ulmus generate --checkpoint $run --prompt "Mr. Darcy" --seed 2
DONE
