"""What a library is compared with: the untuned library, ONNX Runtime, and the model that a quantized one was made from."""
