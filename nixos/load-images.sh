#!/bin/sh
# load-images.sh MANIFEST KEY=ARCHIVE...: makes the images of the manifest the only images Docker holds.
#
# An image counts as the expected one when its layers, and the part of its configuration that has a say in a run, are
# those of the manifest. Anything else ends with an error and no image under that name, so that nothing is judged with
# it. Nothing is ever pulled.
set -eu

manifest=$1
shift

fail() {
  echo "evalhost-load-images: $*" >&2
  exit 1
}

# Stores differ in what they leave out and in the order of volumes; the manifest leaves nothing out.
identity='{
  layers: (.RootFS.Layers // []),
  config: {
    user: (.Config.User // ""),
    env: (.Config.Env // []),
    entrypoint: (.Config.Entrypoint // []),
    cmd: (.Config.Cmd // []),
    workingDir: (.Config.WorkingDir // ""),
    volumes: ((.Config.Volumes // {}) | keys),
    healthcheck: (.Config.Healthcheck.Test // [])
  }
}'
expected='{layers, config: (.config | .volumes |= sort)}'

count=$(jq -r '.images | length' "$manifest") || fail "$manifest cannot be read: without it no image can be told from another"
[ "$count" -gt 0 ] || fail "$manifest describes no image"

for pair in "$@"; do
  key=${pair%%=*}
  archive=${pair#*=}
  reference=$(jq -r --arg key "$key" '.images[$key].reference // ""' "$manifest")
  [ -n "$reference" ] || fail "$archive was given for the image $key, of which $manifest says nothing"
  loaded=$(docker image load --quiet --input "$archive") ||
    fail "Docker would not load $archive; look at journalctl -u docker"
  # "Loaded image: NAME"; an archive is named like a file, and its image has to be called what everybody asks for.
  loaded=${loaded##*: }
  if [ "$loaded" != "$reference" ]; then
    docker image tag "$loaded" "$reference" || fail "the image of $archive cannot be called $reference"
    docker image rm "$loaded" >/dev/null || fail "the image of $archive cannot be taken the name $loaded from"
  fi
done

keep=""
for reference in $(jq -r '.images[].reference' "$manifest"); do
  found=$(docker image inspect "$reference") ||
    fail "Docker has no image $reference: no archive carried it, and evalhost never pulls"
  want=$(jq -S -c --arg reference "$reference" ".images[] | select(.reference == \$reference) | $expected" "$manifest")
  have=$(printf '%s' "$found" | jq -S -c ".[0] | $identity")
  if [ "$want" != "$have" ]; then
    docker image rm --force "$reference" >/dev/null || true
    fail "$reference is another image than the one that was built: expected $want, found $have"
  fi
  keep="$keep $(printf '%s' "$found" | jq -r '.[0].Id')"
done

# Whatever is left from an earlier version of this host could be judged with by mistake.
for id in $(docker image ls --all --quiet --no-trunc | sort -u); do
  case "$keep " in
  *" $id "*) ;;
  *) docker image rm --force "$id" >/dev/null || fail "the old image $id cannot be removed" ;;
  esac
done
