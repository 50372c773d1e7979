# A bootable ISO: a judging host without a disk, told at boot whom it judges for. Either on the kernel command line
#
#   evalhost.server=https://judge.example.org/api/v1  evalhost.name=hall-2  evalhost.resolver=192.0.2.53
#
# or on a second volume with the label EVALHOST and a file evalhost.env with lines such as
#
#   AJ_Server__BaseUrl=https://judge.example.org/api/v1
#
# What is missing is said on the console, and nothing is judged until it is there.
{
  config,
  lib,
  modulesPath,
  pkgs,
  ...
}:
let
  base = pkgs.writeText "evalhost-base.env" (
    lib.concatStrings (
      lib.mapAttrsToList (key: value: "${key}=${value}\n") config.services.evalhost.environment
    )
  );
  our = import ../lib.nix { inherit lib; };
  programs = config.services.evalhost.programs;
  daemon = lib.optionalString (programs ? runner) (lib.getExe programs.runner);
  compose = pkgs.writeShellApplication {
    name = "evalhost-boot-config";
    runtimeInputs = [
      pkgs.coreutils
      pkgs.gawk
      pkgs.gnused
      pkgs.util-linux
    ];
    text = builtins.readFile ./boot-config.sh;
  };
in
{
  imports = [ "${modulesPath}/installer/cd-dvd/iso-image.nix" ];

  # Evaluated as part of a flake, NixOS asks nobody else what machine it is for.
  nixpkgs.hostPlatform = lib.mkDefault "x86_64-linux";

  isoImage = {
    makeBiosBootable = true;
    makeEfiBootable = true;
    makeUsbBootable = true;
  };

  # The medium's own module would mount the root with the kernel's bound. Here it is the option's, as on every host.
  fileSystems."/" = lib.mkForce {
    device = "tmpfs";
    fsType = "tmpfs";
    options = [
      "mode=0755"
      "size=${config.services.evalhost.scratch.memory}"
    ];
  };

  # The medium's own module would enter what is in the store in a database of Nix, which this host does not have: before the first
  # service, or, in newer releases, by one.
  boot.postBootCommands = lib.mkForce "";
  systemd.services.register-nix-paths.enable = false;

  services.evalhost = {
    enable = true;
    server.atBoot = true;
  };
  networking.hostName = lib.mkDefault "evalhost";
  system.stateVersion = lib.mkDefault "26.05";
  boot.kernelParams = [
    "console=ttyS0,115200"
    "console=tty0"
  ];

  environment.etc = {
    "evalhost/runner.env".source = "/run/evalhost/runner.env";
    "evalhost/egress".source = "/run/evalhost/egress";
    "resolv.conf".source = "/run/evalhost/resolv.conf";
    "systemd/timesyncd.conf.d/evalhost.conf".source = "/run/evalhost/timesyncd.conf";
  };

  systemd.services.evalhost-boot-config = {
    description = "Read whom this machine judges for";
    wants = [ "network-online.target" ];
    after = [ "network-online.target" ];
    before = [
      "evalhost-egress.service"
      "evalhost-runner.service"
    ];
    # Without a Server there is nobody to judge for: the daemon stays off, and the console says why.
    requiredBy = [ "evalhost-runner.service" ];
    wantedBy = [ "multi-user.target" ];
    serviceConfig = our.confined // {
      Type = "oneshot";
      RemainAfterExit = true;
      # It mounts the volume, for itself alone, and reads a file of whoever wrote it.
      CapabilityBoundingSet = "CAP_SYS_ADMIN CAP_DAC_READ_SEARCH";
      PrivateNetwork = true;
      PrivateTmp = true;
      RestrictAddressFamilies = "AF_UNIX";
      SystemCallFilter = "@system-service @mount";
      ExecStart = "${lib.getExe compose} ${base} /proc/cmdline /dev/disk/by-label/EVALHOST /run/systemd/netif/leases /run/evalhost ${daemon}";
      # What waited for this at boot is done by then, and with a volume that came later it is over.
      ExecStartPost = [
        "${config.systemd.package}/bin/systemctl --no-block try-restart systemd-timesyncd.service"
        "${config.systemd.package}/bin/systemctl --no-block start evalhost-egress.service evalhost-runner.service"
      ];
      RuntimeDirectory = "evalhost";
      RuntimeDirectoryPreserve = true;
      StandardOutput = "journal+console";
      StandardError = "journal+console";
    };
  };
  # A volume that is plugged in later is read then.
  services.udev.extraRules = ''
    SUBSYSTEM=="block", ENV{ID_FS_LABEL}=="EVALHOST", TAG+="systemd", ENV{SYSTEMD_WANTS}+="evalhost-boot-config.service"
  '';
}
