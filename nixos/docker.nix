# Docker: the settings of host/daemon.json, and nothing that survives a boot.
{
  config,
  lib,
  pkgs,
  ...
}:
let
  inherit (lib) mkOption types;
  cfg = config.services.evalhost;
  settings = lib.importJSON ./host/daemon.json;
in
{
  options.services.evalhost.docker.cgroupDriver = mkOption {
    type = types.enum [
      "systemd"
      "cgroupfs"
    ];
    default = "systemd";
    example = "cgroupfs";
    description = "Who makes the cgroups that limit a run: the service manager, or Docker itself.";
  };

  config = lib.mkIf cfg.enable {
    virtualisation.docker = {
      enable = true;
      # NixOS itself adds "group" and "hosts"; "data-root" is the third and last thing that host/daemon.json has not.
      daemon.settings =
        settings
        // {
          # Beside the scratch directory, so that one file system holds everything that is gone at the next boot.
          data-root = "/var/lib/evalhost/docker";
        }
        // lib.optionalAttrs (cfg.docker.cgroupDriver == "cgroupfs") {
          exec-opts = [ "native.cgroupdriver=cgroupfs" ];
        };
      # host/daemon.json names the runtime without a path: the daemon finds it on its own.
      extraPackages = [ pkgs.crun ];
      autoPrune.enable = false;
    };

    systemd.services.docker = {
      unitConfig.RequiresMountsFor = [ "/var/lib/evalhost" ];
      # The closed firewall stands before anything that could want out.
      after = [ "nftables.service" ];
    };
  };
}
