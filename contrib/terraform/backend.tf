# The locks of a Terraform or OpenTofu state in Holdfast. Holdfast stores no state: `address` is a server that does.
#
# The token is read from the environment, TF_HTTP_PASSWORD. Terraform sends user and password to all three addresses.
terraform {
  backend "http" {
    address        = "https://states.example.org/prod/network"
    lock_address   = "https://holdfast.example.org:4653/integrations/terraform/prod/network"
    unlock_address = "https://holdfast.example.org:4653/integrations/terraform/prod/network"
    username       = "terraform" # any; without one, Terraform sends no password
  }
}
