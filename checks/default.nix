# `nix flake check`: every program built, every configuration evaluated, and the host booted and tried. What needs a
# virtual machine begins with "vm-", so that it can be chosen or left out: nix build .#checks.x86_64-linux.vm-egress
{ self, pkgs }:
let
  inherit (pkgs) lib;
  programs = self.packages.${pkgs.stdenv.hostPlatform.system};

  vm =
    name: module:
    pkgs.testers.runNixOSTest {
      imports = [ module ];
      name = "evalhost-${name}";
      _module.args = {
        inherit programs self;
        # A judging host as a node of a test.
        host.imports = [
          self.nixosModules.default
          ./node.nix
        ];
      };
    };

  # Each suite on each driver it is meant for, by itself: vm-suite-judging, vm-suite-shim-cgroupfs, …
  suites = lib.concatMapAttrs (
    suite: { drivers, ... }:
    lib.listToAttrs (
      map (
        cgroupDriver:
        lib.nameValuePair ("suite-${suite}" + lib.optionalString (cgroupDriver == "cgroupfs") "-cgroupfs") (
          import ./suites.nix { inherit suite cgroupDriver; }
        )
      ) drivers
    )
  ) programs.suites.table;

  machines = {
    host-contract = import ./host-contract.nix { cgroupDriver = "systemd"; };
    host-contract-cgroupfs = import ./host-contract.nix { cgroupDriver = "cgroupfs"; };
    immutable = ./immutable.nix;
    egress = ./egress.nix;
    images = ./images.nix;
    lanes-1 = import ./lanes.nix { lanes = 1; };
    lanes-2 = import ./lanes.nix { lanes = 2; };
    scratch = import ./scratch.nix { onDisk = true; };
    scratch-memory = import ./scratch.nix { onDisk = false; };
  }
  // suites
  // lib.optionalAttrs (programs ? runner && programs ? refserver) {
    iso-bios = import ./iso.nix { firmware = "bios"; };
    iso-uefi = import ./iso.nix { firmware = "uefi"; };
    host-image = ./host-image.nix;
    end-to-end = import ./end-to-end.nix { lanes = 1; };
    end-to-end-lanes-2 = import ./end-to-end.nix { lanes = 2; };
  };

  evaluated = lib.mapAttrs' (
    name: machine:
    lib.nameValuePair "evaluates-${name}" (
      # The path of the derivation says that it evaluated; building it is another thing to ask for.
      pkgs.writeText "evaluates-${name}" (
        builtins.unsafeDiscardStringContext machine.config.system.build.toplevel.drvPath
      )
    )
  ) self.nixosConfigurations;

  formatted =
    pkgs.runCommand "evalhost-formatted"
      {
        nativeBuildInputs = [ pkgs.nixfmt-tree ];
        sources = lib.fileset.toSource {
          root = ../.;
          fileset = lib.fileset.fileFilter (file: file.hasExt "nix") ../.;
        };
      }
      ''
        cp -r "$sources" tree
        chmod -R u+w tree
        HOME=$PWD treefmt --ci --walk filesystem --tree-root tree
        touch "$out"
      '';
in
lib.mapAttrs' (name: module: lib.nameValuePair "vm-${name}" (vm name module)) machines
// evaluated
// {
  inherit formatted;
  option-reference = pkgs.runCommand "evalhost-option-reference-is-current" { } ''
    diff -u ${../docs/options.md} ${programs.option-reference}
    touch "$out"
  '';
  inherit (programs) evalhost refserver shim;
  inherit (programs) suites;
}
