# SPDX-FileCopyrightText: The capstone authors
# SPDX-License-Identifier: Apache-2.0
# Sourced by the scripts beside it: finds what they need and builds. Writes only under build/.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build
jobs=$(nproc 2>/dev/null || echo 2)
# The scripts end with 1 if a step failed, 2 on wrong usage, 3 without a CUDA compiler, 4 if a
# package is missing.
exit_usage=2 exit_no_nvcc=3 exit_missing=4

step() { printf '\n== [%3d s] %s\n' "$SECONDS" "$*"; }
note() { printf 'note: %s\n' "$*"; }
die() {  # die <exit code> <sentence>
  printf '%s: %s\n' "$(basename "$0")" "$2" >&2
  exit "$1"
}

# Puts nvcc's folder on the PATH: a toolkit's own packages do not.
find_nvcc() {
  local place
  for place in "$(dirname "${CUDACXX:-/}")" "${CUDA_HOME:-}/bin" "${CUDA_PATH:-}/bin" \
               /usr/local/cuda/bin /usr/local/cuda-*/bin; do
    if [ -x "$place/nvcc" ]; then PATH=$PATH:$place; fi
  done
  export PATH
  command -v nvcc >/dev/null ||
    die $exit_no_nvcc "no nvcc on the PATH, in CUDA_HOME or in /usr/local/cuda/bin. Install a CUDA \
toolkit, 12.8 or newer (no GPU or driver is needed to build and to run the host tests)."
  local version
  version=$(nvcc --version | sed -n 's/.*release \([0-9]*\)\.\([0-9]*\).*/\1 \2/p')
  # shellcheck disable=SC2086
  set -- $version
  [ $(($1 * 100 + $2)) -ge 1208 ] ||
    die $exit_no_nvcc "$(command -v nvcc) is CUDA $1.$2; 12.8 or newer is needed."
}

has_gpu() { nvidia-smi -L 2>/dev/null | grep -q '^GPU'; }

# Configures build/ and builds the targets named, or all.
configure_and_build() {
  local generator=()
  if [ ! -f "$build/CMakeCache.txt" ] && command -v ninja >/dev/null; then generator=(-G Ninja); fi
  step "Configuring in build/"
  cmake -S "$root" -B "$build" "${generator[@]}"
  step "Building ${*:-everything} with $jobs jobs"
  cmake --build "$build" --parallel "$jobs" ${1:+--target "$@"}
}
