# docs/options.md, rendered from what the module says of its options. Options only: no configuration is looked at, so the
# page says the same whichever host it was made from.
{
  pkgs,
  options,
  reference,
}:
let
  inherit (pkgs) lib;
  text = value: if value == null then "" else value.text or (lib.generators.toPretty { } value);
  words = description: if builtins.isString description then description else description.text or "";
  shown = lib.filter (option: option.visible && !option.internal) (
    lib.optionAttrSetToDocList { inherit (options.services) evalhost; }
  );
  described = map (option: {
    inherit (option) name type readOnly;
    description = words option.description;
    default = text (option.default or null);
    example = text (option.example or null);
  }) shown;
in
pkgs.runCommand "evalhost-options.md"
  {
    json = builtins.toJSON described;
    passAsFile = [ "json" ];
    passthru = { inherit described; };
  }
  ''
    ${lib.getExe reference} < "$jsonPath" > "$out"
  ''
