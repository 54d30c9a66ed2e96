# Runs the security plugins of an installed MCollective on messages that come in as lines of JSON, one answer a line.
#
# A line names the plugin, whose side it plays, its settings, and what to do: "request" and "reply" encode, "decode"
# decodes. Texts that begin with a colon are symbols in both directions.
require 'base64'
require 'json'
require 'mcollective'
require 'yaml'

# Ruby 3.1 takes the classes that YAML may name by keyword only.
module Psych
  class << self
    alias_method :keyword_safe_load, :safe_load

    def safe_load(text, classes = nil, **options)
      options[:permitted_classes] = classes if classes
      keyword_safe_load(text, **options)
    end
  end
end

def from_json(value)
  case value
  when Hash then value.to_h { |key, item| [from_json(key), from_json(item)] }
  when Array then value.map { |item| from_json(item) }
  when /\A:/ then value[1..].to_sym
  else value
  end
end

def to_json_value(value)
  case value
  when Hash then value.to_h { |key, item| [to_json_value(key), to_json_value(item)] }
  when Array then value.map { |item| to_json_value(item) }
  when Symbol then ":#{value}"
  else value
  end
end

config = MCollective::Config.instance
config.instance_variable_set(:@configured, true)
config.instance_variable_set(:@identity, 'ruby.example')
config.instance_variable_set(:@ssl_cipher, 'aes-256-cbc')
MCollective::Log.configure(Class.new do
  def start; end

  def set_logging_level(_level); end

  def valid_levels = {}

  def log(*_); end
end.new)
MCollective::PluginManager << {
  :type => 'global_stats', :class => MCollective::RunnerStats.new
}
%w[psk ssl aes_security].each do |name|
  require "mcollective/security/#{name}"
  MCollective::PluginManager.delete('security_plugin')
end

Message = Struct.new(:payload, :expected_msgid)

$stdin.each_line do |line|
  order = JSON.parse(line)
  config.instance_variable_set(:@pluginconf, order['settings'])
  plugin = MCollective::Security.const_get(order['plugin']).new
  plugin.initiated_by = order['side'].to_sym
  answer =
    begin
      case order['do']
      when 'request'
        data = plugin.encoderequest(nil, from_json(order['body']), order['id'], order['filter'],
                                    order['agent'], 'mcollective', order['ttl'])
        { 'data' => Base64.strict_encode64(data) }
      when 'reply'
        data = plugin.encodereply(order['agent'], from_json(order['body']), order['id'],
                                  order['caller'])
        { 'data' => Base64.strict_encode64(data) }
      when 'decode'
        message = Message.new(Base64.decode64(order['data']), nil)
        { 'heard' => to_json_value(plugin.decodemsg(message)) }
      end
    rescue StandardError => e
      { 'refused' => "#{e.class}: #{e.message}" }
    end
  puts JSON.generate(answer)
  $stdout.flush
end
