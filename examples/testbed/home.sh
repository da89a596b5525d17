#!/bin/sh
# What a neighbour costs a home, and what a proxy or a relay saves: a few minutes, as root.
set -eu
leeway=${LEEWAY:-leeway}

# The published line; each way in five rounds.
"$leeway" testbed overload -m prim_only -m best_effort -m borrowing -m relay -m proxy --out overload.json

# The same on a faster line that nobody has told the gateway of, with somebody on the telephone.
"$leeway" testbed overload --rate "10 Mbit/s, 5 Mbit/s at 10 s" --primary-rate 30 --secondary-rate 150 --call \
    -m prim_only -m best_effort -m relay -m proxy
