require "standardwebhooks/errors.rb"
require "standardwebhooks/util.rb"
require "standardwebhooks/webhooks.rb"
