# Docker: the settings of host/daemon.json, and nothing that survives a boot.
{
  config,
  lib,
  modulesPath,
  options,
  pkgs,
  ...
}:
let
  inherit (lib) mkOption types;
  cfg = config.services.evalhost;
  opt = options.virtualisation.docker;
  settings =
    lib.importJSON ./host/daemon.json
    // {
      # Beside the scratch directory, so that one file system holds everything that is gone at the next boot.
      data-root = "/var/lib/evalhost/docker";
    }
    // lib.optionalAttrs (cfg.docker.cgroupDriver == "cgroupfs") {
      exec-opts = [ "native.cgroupdriver=cgroupfs" ];
    };

  # Of what is said about the daemon, the part that NixOS itself does not say. It adds "group" and "hosts"; "data-root" is
  # the third and last thing that host/daemon.json has not.
  elsewhere = lib.filter (
    definition: !lib.hasPrefix (toString modulesPath) (toString definition.file)
  ) opt.daemon.settings.definitionsWithLocations;
  added = lib.subtractLists (lib.attrNames settings) (
    lib.concatMap (definition: lib.attrNames definition.value) elsewhere
  );
  changed = lib.filter (
    key: config.virtualisation.docker.daemon.settings.${key} or null != settings.${key}
  ) (lib.attrNames settings);
  foreign = added ++ changed;
  sockets = config.virtualisation.docker.listenOptions;
  reachable = lib.filter (socket: !lib.hasPrefix "/" socket) sockets;
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
    # Neither another setting nor another value, nor another door.
    assertions = [
      {
        assertion = foreign == [ ];
        message = ''
          evalhost: `${opt.daemon.settings}` has ${lib.concatStringsSep ", " foreign}, and judging is proved with the
          settings of host/daemon.json and no others. Take it out.
        '';
      }
      {
        assertion = opt.extraOptions.default == config.virtualisation.docker.extraOptions;
        message = ''
          evalhost: `${opt.extraOptions}` is "${config.virtualisation.docker.extraOptions}", which could undo any
          setting of host/daemon.json. Set it to "".
        '';
      }
      {
        assertion = reachable == [ ];
        message = ''
          evalhost: `${opt.listenOptions}` has ${lib.concatStringsSep ", " reachable}: whoever reaches Docker's socket is
          root on this machine. Name paths only, such as "/run/docker.sock".
        '';
      }
    ];

    virtualisation.docker = {
      enable = true;
      daemon.settings = settings;
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
