# The language images, one for each image of toolchains.json, and the manifest by which they are recognised.
{ pkgs }:
let
  inherit (pkgs) lib;
  table = lib.importJSON ./toolchains.json;
  contents = import ./contents.nix { inherit pkgs; };
  # What is made of Debian packages says the same to a program, so that it behaves the same on every host.
  environment = key: (lib.importJSON ./build/images.json).images.${key}.env;

  byKey = lib.listToAttrs (map (image: lib.nameValuePair image.key image) table.images);
  keys = map (image: image.key) table.images;

  build =
    key: image:
    let
      # An archive is named like a file, so it cannot carry the reference; whoever loads it gives it that name.
      reference = lib.splitString ":" (lib.replaceStrings [ "/" ] [ "-" ] image.reference);
    in
    pkgs.dockerTools.buildLayeredImage {
      name = lib.head reference;
      tag = lib.last reference;
      contents = contents.common ++ contents.${key};
      # Every date in an image is this one, so that an image says nothing about when it was built.
      created = "1970-01-01T00:00:01Z";
      mtime = "1970-01-01T00:00:01Z";
      # Not compressed: it is loaded at every boot, and whatever carries the store compresses it.
      compressor = "none";
      config = {
        # No entry point and no command: who runs a container says what. No user either: the shim changes to its own.
        Env = [ "PATH=/bin" ] ++ environment key;
        WorkingDir = "/";
      };
      # Where things are mounted. A root file system that is read-only cannot be given a mount point later.
      extraCommands = ''
        mkdir -p src out program in answers tmp usr/local/bin
        chmod 1777 tmp
      '';
      # Builds run as nobody and may do nothing else than write there.
      fakeRootCommands = ''
        chown 65534:65534 out
      '';
    };
  images = lib.mapAttrs build byKey;
in
{
  inherit keys images;

  # What each image is called once it is loaded.
  references = lib.mapAttrs (_: image: image.reference) byKey;

  # The keys of the images that the given toolchains and families run in; all of them for null.
  keysFor =
    languages:
    let
      isOffered = toolchain: languages == null || lib.any (entry: names toolchain entry) languages;
      names = toolchain: entry: entry == toolchain.id || entry == toolchain.family;
      offered = map (toolchain: toolchain.image) (lib.filter isOffered table.toolchains);
    in
    lib.filter (key: lib.elem key offered) keys;

  # What manifest.go reads: of each image the layers and the part of the configuration that has a say in a run. It is
  # read out of the archive that Docker loads, so that it cannot say anything else than what was built.
  manifest =
    keys:
    pkgs.runCommand "evalhost-images.json" { nativeBuildInputs = [ pkgs.jq ]; } (
      ''
        describe() { # KEY REFERENCE ARCHIVE
          mkdir "$1"
          tar --extract --file "$3" --directory "$1" --wildcards 'manifest.json' '*.json'
          jq --sort-keys --arg key "$1" --arg reference "$2" '{
            ($key): {
              reference: $reference,
              layers: .rootfs.diff_ids,
              config: {
                user: (.config.User // ""),
                env: (.config.Env // []),
                entrypoint: (.config.Entrypoint // []),
                cmd: (.config.Cmd // []),
                workingDir: (.config.WorkingDir // ""),
                volumes: ((.config.Volumes // {}) | keys),
                healthcheck: (.config.Healthcheck.Test // [])
              }
            }
          }' "$1/$(jq --raw-output '.[0].Config' "$1/manifest.json")" > "$1.described"
        }
      ''
      + lib.concatMapStrings (key: ''
        describe ${key} ${byKey.${key}.reference} ${images.${key}}
      '') keys
      + ''
        jq --sort-keys --slurp '{ version: 1, images: (add // {}) }' *.described > "$out"
      ''
    );
}
