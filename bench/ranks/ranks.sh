#!/usr/bin/env bash
# What a round costs on the ranks of one machine: strong and weak scaling beside one process, and the share of communication.
#
#   bench/ranks/ranks.sh ROUNDS OUT [ARGUMENTS of `rounds run ranks`, such as --data-dir DIR]
#
# ROUNDS is a `rounds` with the feature mpi. 1, 2 and 4 ranks of one thread each; more ranks than cores share them, and the
# table says so. OUT gets the measurements and scaling.md.
set -euo pipefail

rounds=$(readlink -f "$1")
out=$2
shift 2
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
mkdir -p "$out"
"$rounds" run ranks --threads 1,2 --out "$out/alone" "$@" >/dev/null
for ranks in 1 2 4; do
  mpirun --quiet -n "$ranks" --oversubscribe --bind-to none -x PATH \
    "$rounds" run ranks --engine mpi --threads 1 --out "$out/$ranks" "$@" >/dev/null
done
"$(dirname "$0")/tables.py" scaling "$out"
