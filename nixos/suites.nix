# The suites that need a real host: static test binaries, and the programs under attack compiled for them, laid out as the
# guest without Nix has them (checks/suites/drive).
{ pkgs, program }:
let
  inherit (pkgs) lib;

  # Who may make the cgroups on the host.
  systemd = [ "systemd" ];
  both = systemd ++ [ "cgroupfs" ];

  # Those of checks/suites/drive/suites.go, which a test holds this table against.
  table = {
    adversarial = {
      directory = "checks/suites/adversarial";
      drivers = both;
    };
    judge = {
      directory = "services/internal/judge";
      drivers = systemd;
    };
    judging = {
      directory = "checks/suites/judging";
      drivers = systemd;
    };
    protocol = {
      directory = "services/runner/suite";
      drivers = systemd;
    };
    sandbox = {
      directory = "services/internal/sandbox";
      drivers = both;
    };
    shim = {
      directory = "shim";
      drivers = both;
    };
  };
in
program {
  name = "evalhost-suites";
  package = "shim";
  description = "The suites that need a real host, compiled";
  buildInputs = [ (lib.getOutput "static" pkgs.glibc) ];
  buildPhase = ''
    runHook preBuild
    mkdir -p built/suites built/programs
    listed() { # TAGS DIRECTORY: the names of its tests
      go test -tags "$1" -list '^Test' "./$2" | sed -n '/^Test/p' | sort
    }
    compile() { # NAME DIRECTORY
      go test -c -tags guest -o "built/suites/$1.test" "./$2"
      # What the tag brings: the other tests need the tree, and ran in it.
      comm -13 <(listed "" "$2") <(listed guest "$2") > "built/suites/$1.tests"
      if [ ! -s "built/suites/$1.tests" ]; then
        echo "suite $1 has no test of its own in $2, and would pass by running nothing" >&2
        exit 1
      fi
      mkdir -p "built/programs/$1"
      for source in "$2"/testdata/programs/*; do
        case "$source" in
          *.c) $CC -O2 -static -pthread -o "built/programs/$1/$(basename "$source" .c)" "$source" ;;
          *.cpp) $CXX -O2 -static -pthread -o "built/programs/$1/$(basename "$source" .cpp)" "$source" ;;
        esac
      done
    }
  ''
  + lib.concatStrings (
    lib.mapAttrsToList (name: suite: ''
      compile ${name} ${suite.directory}
    '') table
  )
  + ''
    runHook postBuild
  '';
  installPhase = ''
    runHook preInstall
    mkdir -p "$out"
    cp -r built/suites built/programs "$out/"
    cp -r ${../examples} "$out/examples"
    runHook postInstall
  '';
  # There is no program of its own to be given another name.
  postInstall = "";
  doInstallCheck = false;
  passthru = { inherit table; };
}
