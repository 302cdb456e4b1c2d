#!/bin/sh
# Deploys incoming/VERSION of a project. Runs in the project's folder:
#
#   incoming/VERSION/   what to deploy: `app`, and `VERSION`, whose first line is the version;
#                       no links
#   releases/VERSION/   what was deployed, complete or not at all
#   current             a link to the release that is live, switched with one rename
#
# The script deploys PAR's copy of incoming/VERSION, `$PAR_CONTENT`: the content that was approved,
# which an uploader can no longer change.
#
# Prints one JSON object. Exit 0: the version is live. Exit 1: it is not, and `current` is as
# before. PAR holds a lock on the folder, so one call at a time works here. A call that is killed
# leaves `current` either as it was or switched; the next call removes anything else that it left.
set -u
umask 022
LC_ALL=C
content=${PAR_CONTENT-}

project=$1
version=$2
release=releases/$version
link=.current.new
rolled_back=false

# A version as JSON, or null if it is not a valid one: the link may hold any text.
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

# finish STATUS REASON: print the result and exit.
finish() {
    [ -z "$content" ] || rm -rf "$content"
    printf '{"project":"%s","version":"%s","previous":%s,"current":%s,"rolled_back":%s,"reason":"%s"}\n' \
        "$project" "$version" "$(name_of "$previous")" "$(name_of "$(live)")" "$rolled_back" "$2"
    exit "$1"
}

# is_complete FOLDER: whether the folder has all files of a release, for this version.
is_complete() {
    found=
    [ -f "$1/app" ] && [ -f "$1/VERSION" ] && read -r found <"$1/VERSION"
    [ "$found" = "$version" ]
}

# The check of the live release. Extend it with a request to the app itself.
healthy() {
    is_complete current && [ ! -e current/BROKEN ]
}

# switch NAME: at every moment `current` leads to either the old release or the new one.
switch() {
    rm -f "$link" && ln -s "releases/$1" "$link" && mv -fT "$link" current
}

previous=$(live)

[ -n "$content" ] || finish 1 "incoming/$version does not exist"
if [ "$previous" = "$version" ]; then
    healthy || finish 1 "it was live already, and its check fails"
    finish 0 "it was live already, and nothing was changed: deploy other content under another version"
fi

is_complete "$content" || finish 1 "it is incomplete: app or VERSION is missing, or VERSION names another version"
# A release with this name that is not live is left over from an earlier call.
rm -rf "$release" && mv -T "$content" "$release" || finish 1 "its release could not be moved into releases/"

switch "$version" || finish 1 "current could not be switched"
healthy && finish 0 "deployed"

# Switch back in the same way. If nothing was live before, nothing is live afterwards.
if [ -n "$previous" ]; then
    switch "$previous" || finish 1 "its check fails, and current could not be switched back"
else
    rm -f current || finish 1 "its check fails, and current could not be removed"
fi
rolled_back=true
rm -rf "$release"
finish 1 "its check failed after the switch: rolled back"
