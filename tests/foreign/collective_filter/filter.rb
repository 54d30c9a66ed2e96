# Judges filters by MCollective's own code. Reads a JSON object a line ({"node": ..., "filter": ...}), answers true or false.
require "json"
require "ostruct"
require "tempfile"
require "mcollective"

include MCollective

classes = Tempfile.new("classes")
config = Config.instance
{
  "configured" => true, "classesfile" => classes.path, "libdir" => $LOAD_PATH, "fact_cache_time" => 300,
  "pluginconf" => {}, "logger_type" => "console", "loglevel" => "fatal", "color" => false,
}.each { |name, value| config.instance_variable_set("@#{name}", value) }

# Nothing is to be written between the answers.
module MCollective
  class Log
    def self.log(*_args); end
  end
end

class GivenFacts < Facts::Base
  class << self
    attr_accessor :given
  end

  def load_facts_from_source
    GivenFacts.given
  end

  def force_reload?
    true
  end
end

%w[agent collective fact].each { |name| require "mcollective/data/#{name}_data" }

# What JSON cannot hold comes as a hash of one key.
def restored(value)
  case value
  when Hash
    return Regexp.new(value["regexp"], value["options"]) if value.key?("regexp")

    value.transform_values { |inner| restored(inner) }
  when Array
    value.map { |inner| restored(inner) }
  else
    value
  end
end

security = Security::Base.allocate
security.instance_variable_set(:@stats, OpenStruct.new)
$stdout.sync = true

$stdin.each_line do |line|
  given = JSON.parse(line)
  node = given["node"]
  GivenFacts.given = node["facts"]
  config.instance_variable_set(:@identity, node["identity"])
  config.instance_variable_set(:@collectives, node["collectives"])
  File.write(classes.path, node["classes"].map { |name| "#{name}\n" }.join)
  Agents.class_variable_set(:@@agents, node["agents"].to_h { |name, _| [name, {}] })
  node["agents"].each do |name, meta|
    PluginManager.delete("#{name}_agent")
    meta = meta.transform_keys(&:to_sym)
    PluginManager << {:type => "#{name}_agent", :class => OpenStruct.new(:meta => meta)}
  end
  filter = restored(given["filter"])
  (filter["fact"] || []).each { |entry| entry.transform_keys!(&:to_sym) }
  answer =
    begin
      security.validate_filter?(filter) ? true : false
    rescue Exception => e # A syntax error is none of the standard ones.
      raise if e.is_a?(Interrupt) || e.is_a?(NoMemoryError)

      $stderr.puts "#{e.class}: #{e.message}" if ENV["WHY"]
      false
    end
  puts answer
  node["agents"].each { |name, _| PluginManager.delete("#{name}_agent") }
end
