#!/bin/sh
# Deploys incoming/VERSION of the project in whose folder it runs:
#
#   incoming/VERSION/   what to deploy: `app`, and `VERSION`, whose first line is the version; no links
#   releases/VERSION/   what was deployed, whole or not at all
#   current             a link to the release that is live, switched by one rename
#
# What it deploys is not that folder but PAR's copy of it, `$PAR_CONTENT`: what was approved, and what nobody who
# uploads can change any more.
#
# Prints one JSON object. Exit 0: the version is live. Exit 1: it is not, and `current` is as before.
# One call at a time works here: PAR holds a lock on the folder. A call that is killed leaves `current`
# as it was or switched; what it left beside that is cleared away by the next.
set -u
umask 022
LC_ALL=C
content=${PAR_CONTENT-}

project=$1
version=$2
release=releases/$version
link=.current.new
rolled_back=false

# In JSON: a version, or null where it is none. Whoever made the link chose the words.
name_of() {
    case $1 in
        '' | [!a-z0-9]* | *[!a-z0-9._-]*) printf 'null' ;;
        *) if [ ${#1} -le 64 ]; then printf '"%s"' "$1"; else printf 'null'; fi ;;
    esac
}

live() {
    target=$(readlink current) || target=
    case $target in
        releases/*) printf '%s' "${target#releases/}" ;;
    esac
}

# tell STATUS REASON: the result, and the end.
tell() {
    [ -z "$content" ] || rm -rf "$content"
    printf '{"project":"%s","version":"%s","previous":%s,"current":%s,"rolled_back":%s,"reason":"%s"}\n' \
        "$project" "$version" "$(name_of "$previous")" "$(name_of "$(live)")" "$rolled_back" "$2"
    exit "$1"
}

# whole FOLDER: all is there that a release consists of.
whole() {
    found=
    [ -f "$1/app" ] && [ -f "$1/VERSION" ] && read -r found <"$1/VERSION"
    [ "$found" = "$version" ]
}

# The check of what is live: the place to ask the app itself.
healthy() {
    whole current && [ ! -e current/BROKEN ]
}

# switch NAME: `current` leads to the one release or to the other at every moment.
switch() {
    rm -f "$link" && ln -s "releases/$1" "$link" && mv -fT "$link" current
}

previous=$(live)

[ -n "$content" ] || tell 1 "there is no incoming/$version"
if [ "$previous" = "$version" ]; then
    healthy || tell 1 "it was live already, and its check fails"
    tell 0 "it was live already, and nothing was changed: other content wants another version"
fi

whole "$content" || tell 1 "it is not whole: app or VERSION is missing or another"
# A release of this name that is not live is what an earlier call left.
rm -rf "$release" && mv -T "$content" "$release" || tell 1 "its release could not be put in place"

switch "$version" || tell 1 "current could not be switched"
healthy && tell 0 "deployed"

# Back, by the same step. Where nothing was live before, nothing is.
if [ -n "$previous" ]; then
    switch "$previous" || tell 1 "its check fails, and current could not be switched back"
else
    rm -f current || tell 1 "its check fails, and current could not be removed"
fi
rolled_back=true
rm -rf "$release"
tell 1 "its check failed after the switch: rolled back"
