#!/bin/sh
# setup.sh REPOSITORY.git [HUB-URL]: makes a bare repository (or takes the one that is there) and installs the hook.

set -eu
repository=${1:?"usage: setup.sh REPOSITORY.git [HUB-URL]"}
here=$(cd "$(dirname "$0")" && pwd)

for program in git curl flock awk; do
    command -v "$program" >/dev/null || {
        echo "setup.sh: $program is missing" >&2
        exit 3
    }
done

if [ ! -d "$repository" ]; then
    git init --quiet --bare --initial-branch=main "$repository"
fi
hook=$(git --git-dir="$repository" rev-parse --absolute-git-dir)/hooks/post-receive
if [ -e "$hook" ] && ! cmp -s "$here/post-receive" "$hook"; then
    echo "setup.sh: $hook is there already and is another one; it was left alone" >&2
    exit 1
fi
mkdir -p "$(dirname "$hook")"
cp "$here/post-receive" "$hook"
chmod 755 "$hook"
[ -z "${2:-}" ] || git --git-dir="$repository" config hookwire.url "$2"
echo "$repository announces its pushes to $(git --git-dir="$repository" config --get hookwire.url || echo http://127.0.0.1:8080)"
