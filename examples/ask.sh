#!/bin/sh
# Asks PAR over HTTP and ends with an exit code that a script can act on.
#
#   ask.sh 'health_check()'
#
# Needs: curl and jq, PAR_URL, and the key in the file PAR_KEY_FILE (default: ~/.config/par/key).
# Prints the answer. Exit codes, as of `par run`: 0 answered, 1 failed, 2 usage, 3 denied, 4 waits
# for approval, 6 no valid key, 7 server not reachable, 8 limit reached.
set -eu

message=${1:?usage: ask.sh MESSAGE}
url=${PAR_URL:?PAR_URL is not set}
key_file=${PAR_KEY_FILE:-$HOME/.config/par/key}
reply=$(mktemp)
trap 'rm -f "$reply"' EXIT

# The key passes through a pipe: an argument would be visible to every process of this host.
code=0
status=$(
    jq -cn --arg message "$message" '{message: $message}' > "$reply.in"
    printf 'Authorization: Bearer %s\n' "$(cat "$key_file")" |
        curl -sS -H @- -H 'content-type: application/json' --data-binary "@$reply.in" \
            -o "$reply" -w '%{http_code}' "$url/agent/run"
) || code=$?
rm -f "$reply.in"
if [ "$code" != 0 ]; then
    exit 7
fi

case $status in
    200 | 202) ;;
    401 | 403) jq -r '.detail // .title' "$reply" >&2; exit 6 ;;
    *) jq -r '.detail // .title' "$reply" >&2; exit 1 ;;
esac

jq -r '.answer // empty' "$reply"
case $(jq -r .status "$reply") in
    done) exit 0 ;;
    denied) exit 3 ;;
    waiting)
        jq -r '"waits for approval: par approval list"' "$reply" >&2
        exit 4
        ;;
    limit) exit 8 ;;
    *) exit 1 ;;
esac
