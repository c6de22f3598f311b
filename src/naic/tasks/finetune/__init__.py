"""`naic finetune`: the model inside naic, trained on captions of one's own."""
