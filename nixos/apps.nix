# What `nix run` starts. An app that judges needs root and a host that passes `evalhost check`; it says so itself.
{
  pkgs,
  programs,
  languages,
}:
let
  inherit (pkgs) lib;
  app = description: program: {
    type = "app";
    program = lib.getExe program;
    meta = { inherit description; };
  };
  manifest = languages.manifest languages.keys;

  # A host that judges replaces its images at every boot (load-images.sh). On anybody's own machine nothing is taken away.
  load = pkgs.writeShellApplication {
    name = "evalhost-load";
    runtimeInputs = [ pkgs.docker-client ];
    text =
      lib.concatMapStrings (
        key:
        let
          image = languages.images.${key};
        in
        ''
          docker image load --quiet --input ${image}
          docker image tag ${image.imageName}:${image.imageTag} ${languages.references.${key}}
          docker image rm ${image.imageName}:${image.imageTag} > /dev/null
        ''
      ) languages.keys
      + ''
        echo "The images are loaded. What they must be is said in a file; evalhost finds it with"
        echo "  export EVALHOST_MANIFEST=${manifest}"
      '';
  };
  # The examples carry labelled solutions; `evalhost verify` says of each whether its verdict was the expected one.
  demo = pkgs.writeShellApplication {
    name = "evalhost-demo";
    runtimeInputs = [
      load
      programs.evalhost
    ];
    text = ''
      evalhost-load
      export EVALHOST_MANIFEST=${manifest}
      evalhost check
      for package in ${../examples}/*/; do
        evalhost verify "$package"
      done
    '';
  };
in
{
  default = app "Judge a package on this machine" programs.evalhost;
  load-images = app "Load the language images into this machine's Docker" load;
  demo = app "Judge every labelled example solution" demo;
  refserver = app "A small Server for trying things out" programs.refserver;
}
