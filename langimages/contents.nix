# What stands in each image: what the commands of toolchains.json call, and nothing else.
{ pkgs }:
let
  inherit (pkgs) lib;

  # Judged programs are linked with -static. The static C library is an output of its own that no compiler searches unless
  # it is told to, and clang, which uses gcc's C++ library, knows only where the shared one is.
  static =
    compiler:
    compiler.override (given: {
      nixSupport = (given.nixSupport or { }) // {
        cc-ldflags = (given.nixSupport.cc-ldflags or [ ]) ++ [
          "-L${lib.getOutput "static" pkgs.glibc}/lib"
          "-L${pkgs.gcc.cc}/lib"
        ];
      };
    });

  # A shell that starts quickly: it stands in front of every build and every judged run.
  shell = pkgs.runCommand "sh" { } ''
    mkdir -p "$out/bin"
    ln -s ${lib.getExe pkgs.dash} "$out/bin/sh"
  '';
in
{
  common = [
    shell
    pkgs.coreutils
  ]
  ++ import ./names.nix { inherit pkgs; };
  gcc = [ (static pkgs.gcc) ];
  clang = [ (static pkgs.clang) ];
  cpython = [ pkgs.python3 ];
  pypy = [ pkgs.pypy3 ];
}
