# Egress: the host reaches its name servers, its clocks and its Server, and nothing reaches the host.
{
  config,
  lib,
  pkgs,
  ...
}:
let
  inherit (lib) mkOption types;
  cfg = config.services.evalhost;
  egress = cfg.egress;
  our = import ./lib.nix { inherit lib; };

  through = if cfg.server.proxy != null then cfg.server.proxy else cfg.server.url;
  # Null for what is no address: then nothing is let out to it, and an assertion says why.
  destination = if through == null then null else our.urlParts through;
  # Fixed addresses of the Server say nothing about where a proxy is.
  serverHosts =
    if cfg.server.proxy == null && cfg.server.addresses != [ ] then
      cfg.server.addresses
    else
      [ destination.host ];

  # Everything that is let out, as the triples of firewall-refresh.sh.
  wanted =
    map (host: {
      set = "resolver";
      inherit host;
      port = 53;
    }) egress.resolvers
    ++ map (host: {
      set = "time";
      inherit host;
      port = 123;
    }) egress.timeServers
    ++ lib.optionals (!cfg.server.atBoot && destination != null) (
      map (host: {
        set = "server";
        inherit host;
        inherit (destination) port;
      }) serverHosts
    );
  fixed = lib.filter (entry: our.isAddress entry.host) wanted;
  named = lib.filter (entry: !our.isAddress entry.host) wanted;

  element =
    entry:
    let
      family = if our.isV6 entry.host then "6" else "4";
      value =
        if entry.set == "server" then "${entry.host} . ${toString entry.port}" else entry.host;
    in
    "add element inet evalhost ${entry.set}${family} { ${value} }";

  inbound = lib.optional config.services.openssh.enable config.services.openssh.ports;

  refresh = pkgs.writeShellApplication {
    name = "evalhost-egress";
    runtimeInputs = [
      pkgs.coreutils
      pkgs.getent
      pkgs.nftables
    ];
    text = builtins.readFile ./host/firewall-refresh.sh;
  };
  # What names mean on this host: the addresses that are let out to, and no others.
  hosts = "/run/evalhost-egress/hosts";
  baseHosts = pkgs.concatText "hosts" config.networking.hostFiles;
in
{
  options.services.evalhost.egress = {
    resolvers = mkOption {
      type = types.listOf our.types.address;
      default = [ ];
      example = [ "192.0.2.53" ];
      description = ''
        The name servers, and the only ones the host asks: what DHCP offers is not taken. None are needed where the
        Server and the clocks are given by address.
      '';
    };
    timeServers = mkOption {
      type = types.listOf (types.strMatching "[A-Za-z0-9.:-]+");
      default = [
        "0.nixos.pool.ntp.org"
        "1.nixos.pool.ntp.org"
      ];
      example = [ "192.0.2.123" ];
      description = "Who tells the time. A Server's certificate cannot be checked by a host that does not know it.";
    };
    rules = mkOption {
      type = types.lines;
      readOnly = true;
      default =
        builtins.replaceStrings
          [
            "\n@INBOUND@\n"
            "@ELEMENTS@\n"
          ]
          [
            (lib.concatMapStrings (port: "\nadd element inet evalhost inbound { ${toString port} }\n") (
              lib.concatLists inbound
            ))
            (lib.concatMapStrings (entry: "${element entry}\n") fixed)
          ]
          (builtins.readFile ./host/firewall.nft.in);
      defaultText = lib.literalMD "`host/firewall.nft.in` with what is fixed filled in";
      example = "table inet evalhost { }";
      description = "The rules as they are loaded. For reading.";
    };
    names = mkOption {
      type = types.lines;
      readOnly = true;
      default = lib.concatMapStrings (
        entry: "${entry.set} ${entry.host} ${toString entry.port}\n"
      ) named;
      defaultText = lib.literalMD "whatever of the above has a name instead of an address";
      example = "server judge.example.org 443";
      description = "What is looked up again and again, one `SET HOST PORT` a line. For reading.";
    };
  };

  config = lib.mkIf cfg.enable {
    assertions = [
      {
        assertion = cfg.server.atBoot || named == [ ] || egress.resolvers != [ ];
        message = ''
          evalhost: services.evalhost.egress.resolvers is empty, and ${
            lib.concatMapStringsSep ", " (entry: entry.host) named
          } must be looked up: nothing would ever be let out to them. Name at least one resolver by its address, or give
          services.evalhost.server.addresses and services.evalhost.egress.timeServers as addresses.
        '';
      }
    ];

    # One table, ours. The firewall of NixOS would add another, and accept what this one does not.
    networking.firewall.enable = lib.mkForce false;
    networking.nftables = {
      enable = true;
      flushRuleset = true;
      ruleset = egress.rules;
    };

    networking.nameservers = egress.resolvers;
    networking.timeServers = egress.timeServers;
    services.timesyncd.enable = lib.mkDefault true;
    # A resolver of the host's own would listen, and ask others when the declared ones are silent.
    services.resolved.enable = lib.mkForce false;
    networking.resolvconf.enable = lib.mkForce false;
    environment.etc."resolv.conf" = lib.mkIf (!cfg.server.atBoot) {
      text = lib.concatMapStrings (address: "nameserver ${address}\n") egress.resolvers;
    };
    environment.etc.hosts.source = lib.mkForce hosts;
    # Until the first look-up it is what it would be anywhere.
    systemd.tmpfiles.settings."20-evalhost-egress" = {
      "/run/evalhost-egress".d.mode = "0755";
      ${hosts}.C.argument = toString baseHosts;
    };
    environment.etc."evalhost/egress" = lib.mkIf (!cfg.server.atBoot) { text = egress.names; };

    systemd.services.evalhost-egress = {
      description = "Look up whom the firewall lets out to";
      after = [
        "nftables.service"
        "network-online.target"
      ];
      wants = [ "network-online.target" ];
      requires = [ "nftables.service" ];
      before = [ "evalhost-runner.service" ];
      wantedBy = [ "multi-user.target" ];
      unitConfig.ConditionPathExists = "/etc/evalhost/egress";
      # A failure is tried again at once; afterwards the timer keeps what was found from running out.
      serviceConfig = our.confined // {
        Type = "oneshot";
        ExecStart = "${lib.getExe refresh} /etc/evalhost/egress ${hosts} ${baseHosts}";
        RuntimeDirectory = "evalhost-egress";
        RuntimeDirectoryPreserve = true;
        Restart = "on-failure";
        RestartSec = "10s";
        # It asks name servers, and tells the kernel what they said.
        CapabilityBoundingSet = "CAP_NET_ADMIN";
        PrivateDevices = true;
        ProtectClock = true;
        PrivateTmp = true;
        RestrictAddressFamilies = "AF_UNIX AF_INET AF_INET6 AF_NETLINK";
      };
      startLimitIntervalSec = 0;
    };
    systemd.timers.evalhost-egress = {
      wantedBy = [ "timers.target" ];
      timerConfig = {
        OnBootSec = "5min";
        OnUnitInactiveSec = "5min";
      };
    };
  };
}
