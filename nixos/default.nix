# The host as a NixOS module: one concern a file. Plain files that any systemd host uses as they are stand in host/.
{
  imports = [
    ./options.nix
    ./assertions.nix
    ./kernel.nix
    ./docker.nix
    ./images.nix
    ./runner.nix
    ./firewall.nix
    ./immutable.nix
  ];
}
