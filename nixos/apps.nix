# What `nix run` starts. An app that judges needs root and a host that passes `evalhost check`; it says so itself.
{ pkgs, programs }:
let
  inherit (pkgs) lib;
  app = description: program: {
    type = "app";
    program = lib.getExe program;
    meta = { inherit description; };
  };
  # The examples carry labelled solutions; `evalhost verify` says of each whether its verdict was the expected one.
  demo = pkgs.writeShellApplication {
    name = "evalhost-demo";
    runtimeInputs = [ programs.evalhost ];
    text = ''
      evalhost check
      for package in ${../examples}/*/; do
        evalhost verify "$package"
      done
    '';
  };
in
{
  default = app "Judge a package on this machine" programs.evalhost;
}
// lib.optionalAttrs (builtins.pathExists ../examples) {
  demo = app "Judge every labelled example solution" demo;
}
// lib.optionalAttrs (programs ? refserver) {
  refserver = app "A small Server for trying things out" programs.refserver;
}
