{
  description = "A judging host for programming contests: built, not configured";

  # The one input. Everything the host runs comes from this pin and from this tree.
  inputs.nixpkgs.url = "https://channels.nixos.org/nixos-26.05-small/nixexprs.tar.zst";

  outputs =
    { self, nixpkgs }:
    let
      inherit (nixpkgs) lib;
      # Judged programs are x86-64 executables; on any other machine the module refuses, and the flake offers nothing.
      system = "x86_64-linux";
      pkgs = nixpkgs.legacyPackages.${system};
      revision = self.rev or self.dirtyRev or "unknown";
      version = "0.1.0+" + (self.shortRev or self.dirtyShortRev or "unknown");

      programsFor = pkgs: import ./nixos/packages.nix { inherit pkgs version; };
      programs = programsFor pkgs;
      languages = import ./langimages { inherit pkgs; };
      host = modules: lib.nixosSystem { modules = [ self.nixosModules.default ] ++ modules; };
      hosts = self.nixosConfigurations;
    in
    {
      packages.${system} =
        programs
        // lib.mapAttrs' (key: lib.nameValuePair "image-${key}") languages.images
        // {
          default = programs.evalhost;
          image-manifest = languages.manifest languages.keys;
          option-reference = import ./nixos/reference.nix {
            inherit pkgs;
            inherit (hosts.example-vm) options;
            inherit (programs) reference;
          };
          host-image = hosts.example-vm.config.system.build.hostImage;
          iso = hosts.iso.config.system.build.isoImage;
        };

      overlays.default = final: _: {
        evalhostPrograms = programsFor final;
        inherit (final.evalhostPrograms) evalhost;
      };

      # The host, and the three kinds of machine it can be, each of which brings the host along.
      nixosModules = {
        default =
          { lib, pkgs, ... }:
          {
            # Named, so that it counts once however often it is imported.
            key = "evalhost";
            imports = [ ./nixos ];
            services.evalhost.programs = lib.mkDefault (programsFor pkgs);
            system.configurationRevision = lib.mkDefault revision;
          };
      }
      // lib.genAttrs [ "bare-metal" "iso" "vm" ] (profile: {
        imports = [
          self.nixosModules.default
          ./nixos/profiles/${profile}.nix
        ];
      });

      nixosConfigurations = {
        example-vm = host [ ./nixos/profiles/example-vm.nix ];
        example-bare-metal = host [ ./nixos/profiles/example-bare-metal.nix ];
        iso = host [ ./nixos/profiles/iso.nix ];
      };

      checks.${system} = import ./checks { inherit self pkgs; };

      apps.${system} = import ./nixos/apps.nix { inherit pkgs programs languages; };

      devShells.${system}.default = pkgs.mkShell {
        packages = [
          pkgs.go_1_26
          pkgs.gnumake
          pkgs.jq
          pkgs.nftables
          pkgs.nixfmt-tree
          pkgs.shellcheck-minimal
        ];
      };

      formatter.${system} = pkgs.nixfmt-tree;
    };
}
