# Nothing survives a boot but what the operator named, and nobody gets in.
{
  config,
  lib,
  options,
  pkgs,
  utils,
  ...
}:
let
  inherit (lib) mkOption types;
  cfg = config.services.evalhost;
  our = import ./lib.nix { inherit lib; };

  # Formatting is the point, so what must not happen is formatting something else: a partition that carries anything
  # but an earlier scratch file system is left alone, and the host does not judge.
  format = pkgs.writeShellApplication {
    name = "evalhost-format-scratch";
    runtimeInputs = [
      pkgs.e2fsprogs
      pkgs.util-linux
    ];
    text = builtins.readFile ./format-scratch.sh;
  };
  deviceUnit = "${utils.escapeSystemdPath cfg.scratch.device}.device";
  formatting = {
    description = "Format the scratch partition";
    unitConfig.DefaultDependencies = false;
    bindsTo = [ deviceUnit ];
    after = [ deviceUnit ];
    before = [
      "local-fs.target"
      "shutdown.target"
    ];
    conflicts = [ "shutdown.target" ];
    # No private /tmp and no private devices: the one would wait for what waits for this, the other hides the partition.
    serviceConfig = our.confined // {
      Type = "oneshot";
      RemainAfterExit = true;
      PrivateNetwork = true;
      RestrictAddressFamilies = "none";
      ExecStart = "${lib.getExe format} ${cfg.scratch.device}";
    };
  };

  logins = [
    "getty@"
    "serial-getty@"
    "autovt@"
    "console-getty"
    "container-getty@"
  ];
in
{
  options.services.evalhost = {
    scratch = {
      device = mkOption {
        type = types.nullOr (types.strMatching "/dev/.+");
        default = null;
        example = "/dev/disk/by-partlabel/evalhost-scratch";
        description = ''
          A partition for Docker's data, packages and runs, **formatted at every boot**. Without one they are in
          memory, which is quicker and smaller. A partition that holds anything but an earlier scratch file system is
          never formatted.
        '';
      };
      memory = mkOption {
        type = types.strMatching "[0-9]+[kMG%]";
        default = "50%";
        example = "8G";
        description = "How large the root file system in memory may grow; with it the scratch, where no device is named.";
      };
    };

    console = mkOption {
      type = types.bool;
      default = false;
      example = true;
      description = "Whether the machine's console offers a login. There is no password to log in with unless one is set.";
    };

    allowSsh = mkOption {
      type = types.bool;
      default = false;
      example = true;
      description = ''
        Whether an SSH server may run, and its ports be reached. Whoever comes in through it can change every verdict.
      '';
    };
  };

  config = lib.mkIf cfg.enable {
    assertions = [
      {
        assertion = config.fileSystems."/".fsType == "tmpfs";
        message = ''
          evalhost: `${options.fileSystems}`."/" is of the type ${config.fileSystems."/".fsType}, so whatever gets out of a
          container once stays on this host. Leave "/" to the module, which keeps it in memory, and mount /nix and /boot by
          themselves, as profiles/bare-metal.nix does.
        '';
      }
    ];
    fileSystems."/" = {
      device = lib.mkDefault "tmpfs";
      fsType = lib.mkDefault "tmpfs";
      # Not a default: NixOS adds a word of its own to the list, and would drop the whole of a default for it. A root without a
      # mode is writable by everybody.
      options = [
        "mode=0755"
        "size=${cfg.scratch.memory}"
      ];
    };
    swapDevices = lib.mkDefault [ ];
    # What the host itself may put in memory beside that; the usual half and quarter would be taken from judged programs.
    boot.devShmSize = lib.mkDefault "64m";
    boot.runSize = lib.mkDefault "10%";

    # Both are mounted over what is in memory otherwise. Programs are started from the scratch, never from the other.
    systemd.mounts =
      lib.optional (cfg.scratch.device != null) {
        what = cfg.scratch.device;
        where = "/var/lib/evalhost";
        type = "ext4";
        options = "nodev,nosuid,noatime";
        requires = [ "evalhost-format-scratch.service" ];
        after = [ "evalhost-format-scratch.service" ];
        before = [ "systemd-tmpfiles-setup.service" ];
        requiredBy = [ "local-fs.target" ];
      }
      ++ lib.optional (cfg.identity.device != null) {
        what = cfg.identity.device;
        where = "/var/lib/evalhost-identity";
        type = "ext4";
        options = "nodev,nosuid,noexec,noatime";
        requiredBy = [ "local-fs.target" ];
      };
    systemd.services = lib.mkMerge [
      (lib.genAttrs logins (_: {
        enable = lib.mkIf (!cfg.console) false;
      }))
      (lib.mkIf (cfg.scratch.device != null) { evalhost-format-scratch = formatting; })
    ];

    nix.enable = lib.mkDefault false;
    system.switch.enable = lib.mkDefault false;

    users.mutableUsers = false;
    users.users.root.hashedPassword = lib.mkDefault "!";
    # Nobody logs in, and that is meant.
    users.allowNoPasswordLogin = true;
    # Without these no program of the host makes anybody root.
    security.wrappers = lib.mkForce { };
    security.sudo.enable = lib.mkForce false;
    security.polkit.enable = lib.mkForce false;

    # An emergency shell on the console of a machine that nobody is at helps only whoever is.
    systemd.enableEmergencyMode = false;

    networking.useNetworkd = lib.mkDefault true;
    systemd.network.wait-online.anyInterface = lib.mkDefault true;
    # A name of the host as others give it would be one more thing they decide.
    systemd.network.networks."99-ethernet-default-dhcp" = lib.mkIf config.networking.useDHCP {
      dhcpV4Config = {
        UseDNS = false;
        UseNTP = false;
        UseHostname = false;
      };
    };

    # The journal is in memory too; whoever wants to keep it reads it while the machine runs. What is wrong is on the console
    # as well: on a host that nobody gets into it is the only place where it could be seen.
    environment.etc."systemd/journald.conf.d/50-evalhost.conf".text = ''
      [Journal]
      Storage=volatile
      RuntimeMaxUse=128M
      ForwardToConsole=yes
      TTYPath=/dev/console
      MaxLevelConsole=warning
    '';

    environment.defaultPackages = lib.mkDefault [ ];
    documentation.enable = lib.mkDefault false;
    services.logrotate.enable = lib.mkDefault false;
    boot.enableContainers = lib.mkDefault false;
  };
}
