# What the kernel must be for a limit to hold and for equal runs to cost equal times.
{
  config,
  lib,
  pkgs,
  ...
}:
let
  inherit (lib) mkOption types;
  cfg = config.services.evalhost;
  onOff = value: if value then "1" else "0";
in
{
  options.services.evalhost.kernel = {
    smt = mkOption {
      type = types.bool;
      default = false;
      example = true;
      description = ''
        Whether two programs may share a core. They slow each other down and are charged for it, so this costs the
        trust in figures and gains throughput.
      '';
    };
    boost = mkOption {
      type = types.bool;
      default = false;
      example = true;
      description = ''
        Whether processors may run faster than their nominal speed. How far they do depends on their temperature and
        on their neighbours.
      '';
    };
    hugePages = mkOption {
      type = types.enum [
        "madvise"
        "never"
      ];
      default = "madvise";
      example = "never";
      description = "Who gets transparent huge pages: whoever asks, or nobody. Given unasked they make equal runs differ.";
    };
  };

  config = lib.mkIf cfg.enable {
    boot.kernelParams = [
      "psi=1"
      "transparent_hugepage=${cfg.kernel.hugePages}"
      # Partitions that call themselves swap are otherwise used without being asked for.
      "systemd.swap=0"
      "zswap.enabled=0"
    ]
    ++ lib.optional (!cfg.kernel.smt) "nosmt";

    # The file is the one every other systemd host installs, and its name sorts it after everything NixOS writes, so
    # that it has the last word.
    environment.etc."sysctl.d/90-evalhost.conf".source = ./host/sysctl.conf;
    environment.etc."modprobe.d/90-evalhost.conf".source = ./host/modprobe.conf;
    # Docker's module turns forwarding on; nothing here forwards anything.
    boot.kernel.sysctl = {
      "net.ipv4.conf.all.forwarding" = lib.mkForce false;
      "net.ipv4.conf.default.forwarding" = lib.mkForce false;
    };

    systemd.coredump.enable = lib.mkDefault false;
    powerManagement.cpuFreqGovernor = lib.mkDefault "performance";

    # A machine without the switch has no such file, and a line for a missing file says nothing.
    systemd.tmpfiles.settings."20-evalhost-boost" = {
      "/sys/devices/system/cpu/cpufreq/boost".w.argument = onOff cfg.kernel.boost;
      "/sys/devices/system/cpu/intel_pstate/no_turbo".w.argument = onOff (!cfg.kernel.boost);
    };

    systemd.packages = [
      (pkgs.runCommand "evalhost-slice" { } ''
        install -D -m 0444 ${./host/evalhost.slice} "$out/lib/systemd/system/evalhost.slice"
      '')
    ];
    # What runs in the slice learns its set from the kernel; the Runner carries it to every container.
    systemd.slices.evalhost = lib.mkIf (cfg.processors != null) {
      sliceConfig.AllowedCPUs = cfg.processors;
    };
    # Nobody asks for the slice before the first run, and the controllers must be there by then.
    systemd.targets.multi-user.wants = [ "evalhost.slice" ];
  };
}
