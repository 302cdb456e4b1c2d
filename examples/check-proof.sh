#!/bin/sh
# Checks the proof of one run as a stranger does: with the file, the log's public key and the
# program `par`, but without the ledger, a home, a network or a secret.
#
#   check-proof.sh run.proof KEY
#
# KEY is the line that `par audit key` prints. Take it from its owner, not from whoever sent the
# proof. Exit 0: the run is whole, and signed by that key. Exit 5: nothing is proven.
set -eu

proof=${1:?usage: check-proof.sh PROOF KEY}
key=${2:?usage: check-proof.sh PROOF KEY}
exec env -i PATH="$PATH" par audit check-proof "$proof" --key "$key"
