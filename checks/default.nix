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

  machines = {
    host-contract = import ./host-contract.nix { cgroupDriver = "systemd"; };
    host-contract-cgroupfs = import ./host-contract.nix { cgroupDriver = "cgroupfs"; };
    immutable = ./immutable.nix;
    egress = ./egress.nix;
    images = ./images.nix;
    lanes = ./lanes.nix;
    scratch = ./scratch.nix;
    suites = import ./suites.nix { cgroupDriver = "systemd"; };
    suites-cgroupfs = import ./suites.nix { cgroupDriver = "cgroupfs"; };
    iso = ./iso.nix;
  }
  // lib.optionalAttrs (programs ? runner && programs ? refserver) {
    end-to-end = ./end-to-end.nix;
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
  inherit (programs) evalhost shim suites;
}
