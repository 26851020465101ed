# Verify and sign with the official library in Ruby; scripts/interop_signatures.py writes and reads the lines.
require "standardwebhooks"

STDIN.each_line do |line|
  secret, id, timestamp, body64, signature64 = line.split
  body = Base64.decode64(body64)
  webhook = StandardWebhooks::Webhook.new(secret)
  accepted = true
  begin
    webhook.verify(body, {
      "webhook-id" => id, "webhook-timestamp" => timestamp, "webhook-signature" => Base64.decode64(signature64)
    })
  rescue StandardWebhooks::WebhookVerificationError
    accepted = false
  end
  puts "#{accepted} #{webhook.sign(id, timestamp, body)}"
end
