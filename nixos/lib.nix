# Types and readings of values that more than one file of the module needs.
{ lib }:
let
  inherit (lib) types;
  capture = pattern: text: builtins.match pattern text;

  # "2-5,8" as the list of processors it names.
  processorsOf =
    text:
    lib.concatMap (
      part:
      let
        bounds = map lib.toInt (lib.splitString "-" part);
      in
      lib.range (lib.head bounds) (lib.last bounds)
    ) (lib.splitString "," text);

  # scheme, host and port of a base URL; null where it is none.
  urlParts =
    url:
    let
      match = capture "(https?)://(\\[[0-9a-fA-F:.]+]|[^]@:/?#[]+)(:([0-9]+))?(/.*)?" url;
      scheme = lib.elemAt match 0;
      port = lib.elemAt match 3;
    in
    if match == null then
      null
    else
      {
        inherit scheme;
        host = lib.removeSuffix "]" (lib.removePrefix "[" (lib.elemAt match 1));
        port =
          if port != null then
            lib.toIntBase10 port
          else if scheme == "https" then
            443
          else
            80;
        path = lib.optionalString (lib.elemAt match 4 != null) (lib.elemAt match 4);
      };

  isV4 = text: capture "[0-9]{1,3}(\\.[0-9]{1,3}){3}" text != null;
  isV6 = text: lib.hasInfix ":" text && capture "[0-9a-fA-F:.]+" text != null;
in
{
  inherit
    processorsOf
    urlParts
    isV4
    isV6
    ;
  isAddress = text: isV4 text || isV6 text;

  # What no unit of ours that only helps the host along needs. Each adds the powers it does need. Nothing here orders units
  # or takes devices away (ProtectClock does): some run before file systems are mounted, or make and mount one. What is left is recorded in docs/decisions/0076.
  confined = {
    CapabilityBoundingSet = "";
    LockPersonality = true;
    MemoryDenyWriteExecute = true;
    NoNewPrivileges = true;
    ProtectControlGroups = true;
    ProtectHome = true;
    ProtectHostname = true;
    ProtectKernelLogs = true;
    ProtectKernelModules = true;
    ProtectKernelTunables = true;
    ProtectSystem = "strict";
    RestrictNamespaces = true;
    RestrictRealtime = true;
    RestrictSUIDSGID = true;
    SystemCallArchitectures = "native";
    SystemCallErrorNumber = "EPERM";
    SystemCallFilter = "@system-service";
    UMask = "0022";
  };

  types = {
    address = types.addCheck types.str (text: isV4 text || isV6 text) // {
      description = "IPv4 or IPv6 address";
    };
    processors = types.strMatching "[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*" // {
      description = "list of processors such as 2-5,8";
    };
    # A file in the store can be read by every process of the host and is copied with every image of it. A path value
    # (./key) is refused too: the moment it is used it lands in the store. So are a path that leads there by a detour and one
    # below /etc, whose files are links to the store on a host whose root file system begins empty.
    secretPath = lib.mkOptionType {
      name = "secretPath";
      description = ''
        absolute path outside the Nix store and outside /etc, as a string: every process can read the store, so a
        secret is named by where it is on the host, such as "/var/lib/evalhost/identity.key"'';
      descriptionClass = "noun";
      check =
        value:
        let
          parts = lib.filter (part: part != "" && part != ".") (lib.splitString "/" value);
          plain = "/" + lib.concatStringsSep "/" parts + "/";
          below = directory: lib.hasPrefix "${directory}/" plain;
        in
        builtins.isString value
        && lib.hasPrefix "/" value
        && builtins.getContext value == { }
        && !lib.elem ".." parts
        && !lib.any below [
          builtins.storeDir
          "/nix/store"
          "/etc"
          "/run/booted-system"
          "/run/current-system"
        ];
      merge = lib.mergeEqualOption;
    };
  };
}
