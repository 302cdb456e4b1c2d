# Switches the maintenance page of a project on or off. It runs in the project's folder.
#
# on:  writes the file MAINTENANCE, which the web server looks for
# off: removes it
#
# Prints one JSON object. Exit 0: the project is in the state that was asked for.
set -eu
state=$1

case $state in
    on) : > MAINTENANCE ;;
    off) rm -f MAINTENANCE ;;
esac
printf '{"maintenance":"%s"}\n' "$state"
