# A machine with a disk: a boot partition, the store, and a scratch partition. What it runs can only be changed from the
# boot entry "maintenance", which judges nothing.
{ lib, pkgs, ... }:
{
  # Evaluated as part of a flake, NixOS asks nobody else what machine it is for.
  nixpkgs.hostPlatform = lib.mkDefault "x86_64-linux";

  # Both boot entries see the same disk; only the ordinary one may not write to it. Options are no defaults: NixOS adds to the
  # list of what is mounted early, and would drop the whole of a default for it.
  fileSystems = {
    "/nix" = {
      device = lib.mkDefault "/dev/disk/by-partlabel/evalhost-nix";
      fsType = lib.mkDefault "ext4";
      options = [
        "ro"
        "noatime"
      ];
      neededForBoot = true;
    };
    "/boot" = {
      device = lib.mkDefault "/dev/disk/by-partlabel/evalhost-boot";
      fsType = lib.mkDefault "vfat";
      options = [
        "ro"
        "umask=0077"
      ];
    };
  };
  # What installs the boot entry is a program of the new system, and calls Nix. The ordinary entry cannot use it: its store and boot
  # partition are read-only, and no Nix is in anybody's path.
  system.switch.enable = true;

  services.evalhost.scratch.device = lib.mkDefault "/dev/disk/by-partlabel/evalhost-scratch";

  boot.loader.systemd-boot = {
    enable = lib.mkDefault true;
    # Whoever is at the console must not be able to boot with another first process.
    editor = false;
    # What an update leaves to go back to.
    configurationLimit = lib.mkDefault 5;
  };
  boot.loader.efi.canTouchEfiVariables = lib.mkDefault true;
  boot.initrd.availableKernelModules = [
    "ahci"
    "nvme"
    "sd_mod"
    "usb_storage"
    "virtio_blk"
    "virtio_pci"
    "virtio_scsi"
    "xhci_pci"
  ];
  # Which firmware a machine needs is known where it is installed: hardware.enableRedistributableFirmware there.
  hardware.cpu.amd.updateMicrocode = lib.mkDefault true;
  hardware.cpu.intel.updateMicrocode = lib.mkDefault true;

  specialisation.maintenance.configuration = {
    system.nixos.tags = [ "maintenance" ];
    # No daemon, no Docker, no judged program: a machine that can be changed is not one that judges.
    services.evalhost.enable = lib.mkForce false;
    fileSystems."/" = {
      device = "tmpfs";
      fsType = "tmpfs";
      options = [
        "mode=0755"
        "size=50%"
      ];
    };
    fileSystems."/nix".options = lib.mkForce [
      "x-initrd.mount"
      "noatime"
    ];
    fileSystems."/boot".options = lib.mkForce [ "umask=0077" ];

    nix.settings.experimental-features = [
      "nix-command"
      "flakes"
    ];
    users.mutableUsers = false;
    # The keys are the operator's: users.users.root.openssh.authorizedKeys.keys, in the ordinary configuration.
    users.users.root.hashedPassword = "!";
    users.allowNoPasswordLogin = true;
    services.openssh = {
      enable = true;
      settings = {
        PasswordAuthentication = false;
        KbdInteractiveAuthentication = false;
        PermitRootLogin = "prohibit-password";
      };
    };
    environment.systemPackages = [ pkgs.gitMinimal ];
  };
}
