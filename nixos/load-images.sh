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

# Stores differ in what they leave out and in the order of volumes; the manifest leaves nothing out. Says the id of the
# image that was found if it is the one that was built, and nothing else; otherwise both descriptions.
# shellcheck disable=SC2016 # the variables are those of jq
compare='
  def identity: {
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
  };
  ($manifest[0].images[] | select(.reference == $reference) | {layers, config: (.config | .volumes |= sort)}) as $built
  | (.[0] | identity) as $found
  | if $built == $found and ($built.layers | length) > 0 then .[0].Id
    else "expected \($built | tojson), found \($found | tojson)" end'

references=$(jq -r '.images[].reference' "$manifest") ||
  fail "$manifest cannot be read: without it no image can be told from another"
[ -n "$references" ] || fail "$manifest describes no image"

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
for reference in $references; do
  found=$(docker image inspect "$reference") ||
    fail "Docker has no image $reference: no archive carried it, and evalhost never pulls"
  answer=$(printf '%s' "$found" | jq -r --slurpfile manifest "$manifest" --arg reference "$reference" "$compare")
  case $answer in
  sha256:*)
    keep="$keep $answer"
    # One name for the layers and the configuration together, as `evalhost check` tells it.
    digest=$(jq --compact-output --sort-keys --arg reference "$reference" '.images[] | select(.reference == $reference)
      | {layers, config: (.config | .volumes |= sort)}' "$manifest" | sha256sum)
    echo "evalhost-load-images: $reference is what was built, sha256:${digest%% *}"
    ;;
  *)
    docker image rm --force "$reference" >/dev/null || true
    fail "$reference is another image than the one that was built: $answer"
    ;;
  esac
done

# Whatever is left from an earlier version of this host could be judged with by mistake.
for id in $(docker image ls --all --quiet --no-trunc | sort -u); do
  case "$keep " in
  *" $id "*) ;;
  *) docker image rm --force "$id" >/dev/null || fail "the old image $id cannot be removed" ;;
  esac
done
